"""The commands that look back: step through a log, ask what if, branch off, write a report, hand a log on."""
