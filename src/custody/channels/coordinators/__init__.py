"""Who says what is done next where it is not the engine: Azure's queues, Temporal, runs that come and go."""
