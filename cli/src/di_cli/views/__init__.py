"""What is shown of jobs, pods and events: rows and lines, made from objects and a time; pure."""
