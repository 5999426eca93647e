"""How a user reaches the API server and di-server: kubeconfig, contexts, tokens."""
