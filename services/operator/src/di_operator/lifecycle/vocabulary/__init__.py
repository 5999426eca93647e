"""The terms of a decision: actions, phases, reasons, conditions."""
