"""Another plan: who proposes it and what they see, the gate it passes, how it is adopted, reviewed and told."""
