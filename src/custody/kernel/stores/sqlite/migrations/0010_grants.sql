-- What operators have granted to archives and robots. The secrets that archives were allowed move in.

create table granted (
    id integer primary key autoincrement,
    subject text not null,                     -- archive/NAME, robot/NAME
    what text not null,                        -- network, secret, repository
    value text not null,
    by text not null,
    why text not null,
    at integer not null,
    ended integer                              -- when it was withdrawn
) strict;
create unique index granted_now on granted (subject, what, value) where ended is null;

insert into granted (subject, what, value, by, why, at)
select 'archive/' || archive, 'secret', case when branch = '*' then secret else secret || '@' || branch end, who, why, at
from archive_secret order by archive, secret, branch;
drop table archive_secret;
