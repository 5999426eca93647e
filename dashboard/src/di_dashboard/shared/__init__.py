"""The shared dashboard in the cluster: each user has the permissions of the user's own token."""
