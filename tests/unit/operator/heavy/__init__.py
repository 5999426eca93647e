"""Jobs of many bytes: what they cost the operator."""
