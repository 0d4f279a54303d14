"""The shell: engine, driver, tools, calls, secrets, telemetry."""
