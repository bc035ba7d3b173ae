-- Whose a job of before the names is, where the history leaves no doubt: of the kinds that were asked for from outside, those
-- that were submitted under a name which one token alone had. Such a token saw all jobs of its collections then, so that
-- nobody comes to see more than before; without this, who submitted them would not see them any more.

update job set by = coalesce((
    select 'token:' || min(token.id) || '/' || min(token.name)
    from event join token on token.name = event.agent and token.login is null and token.created <= job.created
    where event.subject = 'job/' || job.id and event.seq = 1 and event.type = 'submitted'
    having count(*) = 1), '')
where by = '' and created < (select applied from schema_version where version = 15)
    and kind <> 'bulk' and kind not like 'ingest/%' and kind not like 'deliver/%' and kind not like 'workflow/%'
    and kind not like 'channel/%' and kind not like 'robot/%' and kind not like 'history/%'
