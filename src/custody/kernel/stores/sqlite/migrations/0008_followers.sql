-- Who waits, or waited, for a job: found by the index however many edges there are, and a need that is met changes
-- nothing in it.

drop index edge_target;
create index edge_target on edge (target, job);
