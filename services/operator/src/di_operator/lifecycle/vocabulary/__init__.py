"""The words of a decision: actions, phases, reasons, conditions."""
