"""One engine and the asynchronous shell around it: calls, timers, people's words, the lease, the telling."""
