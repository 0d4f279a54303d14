"""What every command stands in: its row as a value, the screen, the store that was named, failing, and how a row is carried out."""
