-- Lists of jobs by their collection (those without one are in no such list), and lists of a batch's jobs and of
-- failures in the order in which they are shown.

create index job_collection on job (collection, id) where collection <> '';
drop index job_parent;
create index job_parent on job (parent, ended, id) where parent is not null;
drop index job_failed;
create index job_failed on job (kind, code, id) where ended = 'failed';
