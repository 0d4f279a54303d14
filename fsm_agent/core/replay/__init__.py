"""Looking back at logs: step through one, ask it what another table would have done, branch off, hand it on."""
