-- was: 0009
-- The newest runs that people and schedules asked for, of one archive: found whatever else is in the table.

create index job_runs on job (lane, id) where kind = 'workflow/run';
