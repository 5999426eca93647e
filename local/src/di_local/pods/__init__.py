"""The kubelet of this machine: pods whose containers are processes."""
