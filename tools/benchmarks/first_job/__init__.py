"""An own program from the command to its first line, and again after an edit.

With `di`, with Ray on KubeRay, and with Kubeflow's SDK.
"""
