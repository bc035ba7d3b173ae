-- A key belongs to its collection: whoever uses it first swallows nobody else's work. What is ready for a robot stays one
-- job per robot and item, wherever the item is moved. The index before allowed no more than this one does.

drop index job_key;
create unique index job_key on job (kind, key, (case when substr(kind, 1, 6) = 'robot/' then '' else collection end))
    where key is not null
