"""The data of the policies: jobs, nodes, resources, and a policy's protocol."""
