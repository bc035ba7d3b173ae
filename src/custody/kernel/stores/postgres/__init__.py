"""PostgreSQL: many machines, one store; row locks at READ COMMITTED, every commit on disk before it is answered."""
