"""A DIJob as processes on this machine: the operator and the server as they are, before a store in
memory and a kubelet whose containers are processes."""
