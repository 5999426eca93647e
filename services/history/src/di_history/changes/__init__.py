"""What has changed between two sights of an object, as records; pure."""
