"""The page for many, in the cluster: each sees and does what the API server lets them."""
