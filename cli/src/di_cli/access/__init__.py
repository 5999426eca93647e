"""Access to the API server and di-server: kubeconfig, contexts, tokens."""
