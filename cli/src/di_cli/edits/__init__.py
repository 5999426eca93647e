"""What a command changes: patches and manifests, made from objects and words; pure."""
