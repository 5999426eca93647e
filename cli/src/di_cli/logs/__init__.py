"""The logs of many pods as one."""
