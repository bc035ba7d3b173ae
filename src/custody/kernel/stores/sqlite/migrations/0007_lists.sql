-- Lists of jobs by their collection. Those without one are in no such list.

create index job_collection on job (collection, id) where collection <> '';
