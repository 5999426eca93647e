"""One policy learned by a group of learners whose number changes while they train."""
