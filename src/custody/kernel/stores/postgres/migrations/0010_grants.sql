-- What operators have granted to archives and robots. The secrets that archives were allowed move in.

create table granted (
    id bigint generated always as identity primary key,
    subject text collate "C" not null,                     -- archive/NAME, robot/NAME
    what text collate "C" not null,                        -- network, secret, repository
    value text collate "C" not null,
    by text not null,
    why text not null,
    at bigint not null,
    ended bigint                              -- when it was withdrawn
);
create unique index granted_now on granted (subject, what, value) where ended is null;

insert into granted (subject, what, value, by, why, at)
select 'archive/' || archive, 'secret', case when branch = '*' then secret else secret || '@' || branch end, who, why, at
from archive_secret order by archive, secret, branch;
drop table archive_secret;
