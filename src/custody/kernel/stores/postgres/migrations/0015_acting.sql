-- Who asked for a job, and who set a schedule: written by the store when it comes into being, and by nothing else.
-- What was there before this was applied has nobody.

alter table job add column by text collate "C" not null default '';
alter table schedule add column by text not null default '';
alter table schedule add column why text not null default '';
