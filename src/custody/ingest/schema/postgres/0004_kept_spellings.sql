-- What was kept as it was spelled is found in the kernel's table, together with what others name.

insert into spelling (owner, spelled, normal)
select owner, spelled, normal from former_spelling where true
on conflict (owner, spelled) do nothing;
drop table former_spelling;
