"""What the policies decide about: jobs, nodes, resources, and a policy's protocol."""
