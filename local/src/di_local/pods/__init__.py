"""A kubelet for this machine: pods whose containers are processes."""
