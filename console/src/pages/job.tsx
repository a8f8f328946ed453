// One job: its state, log, decisions and timeline; stop it or run it again.

import { Fragment } from 'preact';
import { get, post, segment } from '../api/client';
import type { Decision, Event, JobDetail, Page, ResolvedJob } from '../api/types';
import { exitCode, headline, onlyExit, resources } from '../format';
import { t, word } from '../i18n';
import { link, visits } from '../router';
import { eventsOfJob } from '../store/jobevents';
import { may } from '../store/may';
import { Resource, useOwn } from '../store/resource';
import { Act } from '../ui/act';
import { StateBadge, Tags } from '../ui/badges';
import { confirm } from '../ui/dialog';
import { attempt, Empty, Loading, Problem } from '../ui/feedback';
import { BackIcon } from '../ui/icons';
import { LogPanel } from '../ui/logpanel';
import { Outside } from '../ui/outside';
import { Clock, Span } from '../ui/time';
import { Timeline } from '../ui/timeline';
import { inGeneral, standing, Verdicts } from '../ui/verdicts';

const about = (id: string) => (event: Event) => event.type === 'job' && event.job === id;
const path = (id: string): string => `/v1/jobs/${segment(id)}`;

/** The reasons change with the clusters, so a queued job is fetched often. */
const detailOf = (id: string) =>
  new Resource((signal) => get<JobDetail>(path(id), {}, signal), {
    every: 2000,
    until: (job) => job.ended_at !== undefined,
    concerns: about(id),
  });
const eventsOf = (id: string) => new Resource((signal) => eventsOfJob(id, signal), { concerns: about(id) });
const decisionsOf = (id: string) =>
  new Resource(async (signal) => (await get<Page<Decision>>(`${path(id)}/decisions`, {}, signal)).items, {
    concerns: about(id),
  });
const resolvedOf = (id: string) =>
  new Resource((signal) => get<ResolvedJob>(`${path(id)}/resolved`, {}, signal), { concerns: about(id) });

export function JobPage({ id }: { id: string }) {
  const detail = useOwn(id, detailOf);
  const job = detail.data.value;
  const error = detail.error.value;
  if (!job) {
    return (
      <div class="page">
        <Back />
        {error ? (
          error.status === 404 ? (
            <section class="panel">
              <Empty title={t('job.unknown', { id })}>{error.hint}</Empty>
            </section>
          ) : (
            <Problem error={error} retry={() => void detail.refresh()} />
          )
        ) : (
          <Loading lines={6} />
        )}
      </div>
    );
  }
  return (
    <div class="page">
      <Back />
      <header class="page-head">
        <h1 class="mono">{job.id}</h1>
        <StateBadge state={job.state} stopping={job.stopping} />
        {job.kind !== 'job' && <span class="chip chip-idle">{word('kind', job.kind)}</span>}
        <span class="grow" />
        {job.kind === 'job' && may('submit') && (
          <a class="button" href={`${link.submit}?like=${encodeURIComponent(job.id)}`} data-action="like">
            {t('submit.again')}
          </a>
        )}
        <Actions job={job} refresh={() => void detail.refresh()} />
      </header>
      {job.message ? <Message job={job} /> : <Standing job={job} />}
      <div class="split">
        <div class="split-main">
          {job.why && job.why.clusters.length > 0 && <Why job={job} />}
          {job.kind === 'job' && job.attempts > 0 && <LogPanel job={job} />}
          <Decisions id={job.id} />
          {job.kind === 'job' && (job.cluster ? <ResolvedPanel job={job} /> : <Sent job={job} />)}
        </div>
        <div class="split-side">
          <Facts job={job} />
          <JobTimeline job={job} />
        </div>
      </div>
    </div>
  );
}

/** Ray's messages carry tracebacks and the end of the log: show the line that matters, the rest on request. */
function Message({ job }: { job: JobDetail }) {
  const text = job.message!.trim();
  const line = headline(job) ?? text;
  const bad = job.state === 'failed';
  const look = bad ? 'message message-bad' : 'message';
  const code = bad && line !== onlyExit(job) ? exitCode(job) : undefined;
  const head = (
    <>
      {line}
      {code !== undefined && <span class="message-exit num"> · {t('job.exit', { n: code })}</span>}
    </>
  );
  if (line === text) return <p class={look}>{head}</p>;
  return (
    <details class={look}>
      <summary>{head}</summary>
      <pre>{text}</pre>
    </details>
  );
}

/** What a job waits for on its cluster: for nodes, or for the cluster to answer. */
function Standing({ job }: { job: JobDetail }) {
  if (job.state === 'queued' || job.state === 'running') return null;
  const text = standing(job.why?.summary);
  return text === undefined ? null : <p class="message message-calm">{text}</p>;
}

/** To the list as it was: its filters, and where it was scrolled to. */
function Back() {
  const back = (event: MouseEvent): void => {
    if (!visits.cameFrom('jobs') || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.back();
  };
  return (
    <a class="back" href={visits.latest('jobs') ?? link.jobs} onClick={back}>
      <BackIcon /> {t('jobs')}
    </a>
  );
}

function Actions({ job, refresh }: { job: JobDetail; refresh: () => void }) {
  const stop = async (): Promise<void> => {
    const sure = await confirm({
      title: t('stop.title', { id: job.id }),
      text: job.state === 'queued' ? t('stop.queued') : t('stop.running', { cluster: job.cluster ?? '' }),
      action: t('stop'),
      danger: true,
    });
    if (sure === undefined) return;
    await attempt(() => post(`${path(job.id)}/stop`), t('stop.done', { id: job.id }));
    refresh();
  };
  const rerun = async (): Promise<void> => {
    const sure = await confirm({
      title: t('rerun.title', { id: job.id }),
      text: t('rerun.text'),
      action: t('rerun'),
    });
    if (sure === undefined) return;
    await attempt(() => post(`${path(job.id)}/rerun`), t('rerun.done', { id: job.id }));
    refresh();
  };
  if (job.state === 'succeeded') return null;
  if (job.state === 'failed' || job.state === 'stopped') {
    return (
      <Act needs="submit" data-action="rerun" onClick={() => void rerun()}>
        {t('rerun')}
      </Act>
    );
  }
  return (
    <Act needs="submit" class="danger" data-action="stop" disabled={job.stopping} onClick={() => void stop()}>
      {t('stop')}
    </Act>
  );
}

/** Why a queued job does not start, cluster by cluster. */
function Why({ job }: { job: JobDetail }) {
  const [first, ...more] = inGeneral(job.why!.summary, job.why!.clusters);
  return (
    <section class="panel" aria-labelledby="why-title" data-why>
      <header>
        <h2 id="why-title">{t('why')}</h2>
        <span class="muted">{first}</span>
      </header>
      {more.map((line) => (
        <p class="why" key={line}>
          {line}
        </p>
      ))}
      <Verdicts verdicts={job.why!.clusters} />
    </section>
  );
}

function Decisions({ id }: { id: string }) {
  const items = useOwn(id, decisionsOf).data.value;
  if (!items?.length) return null;
  return (
    <section class="panel" aria-labelledby="decisions-title">
      <header>
        <h2 id="decisions-title">{t('decisions')}</h2>
        <span class="muted">{t('decisions.hint')}</span>
      </header>
      {items.map((decision) => (
        <div class="decision" key={decision.attempt}>
          <p>
            {t('attempt', { n: decision.attempt })} <span class="arrow">→</span> <b>{decision.cluster}</b>{' '}
            <span class="muted num">
              <Clock at={decision.at} />
            </span>
          </p>
          <Verdicts verdicts={decision.clusters} />
        </div>
      ))}
    </section>
  );
}

/** The job as it is sent to its cluster. */
function ResolvedPanel({ job }: { job: JobDetail }) {
  return <Sent job={job} resolved={useOwn(job.id, resolvedOf).data.value} />;
}

/** Without `resolved`, which needs a cluster: the job as submitted. */
function Sent({ job, resolved }: { job: JobDetail; resolved?: ResolvedJob | undefined }) {
  const environment = resolved?.runtime_env ?? job.runtime_env ?? {};
  return (
    <section class="panel" aria-labelledby="resolved-title" data-resolved={resolved?.cluster ?? ''}>
      <header>
        <h2 id="resolved-title">
          {resolved ? t('resolved', { cluster: resolved.cluster }) : t('resolved.own')}
        </h2>
        <span class="muted">{resolved ? t('resolved.hint') : t('resolved.ownHint')}</span>
      </header>
      <pre class="code">
        <span class="prompt">$ </span>
        {resolved?.entrypoint ?? job.entrypoint}
      </pre>
      {Object.keys(environment).length > 0 ? (
        <pre class="code" data-runtime-env>
          {JSON.stringify(environment, null, 2)}
        </pre>
      ) : (
        <p class="muted panel-foot">{t('resolved.none')}</p>
      )}
    </section>
  );
}

function Facts({ job }: { job: JobDetail }) {
  const metadata = Object.entries(job.metadata ?? {});
  return (
    <section class="panel" aria-label={t('details')}>
      <dl class="facts">
        <dt>{t('cluster')}</dt>
        <dd>{job.cluster ? <a href={link.cluster(job.cluster)}>{job.cluster}</a> : t('none')}</dd>
        {job.dashboard_url !== undefined && (
          <>
            <dt>Ray</dt>
            <dd>
              <Outside to={job.dashboard_url}>{t('job.dashboard')}</Outside>
            </dd>
          </>
        )}
        {job.owner !== undefined && (
          <>
            <dt>{t('owner')}</dt>
            <dd>
              <a href={link.jobsWith({ owner: job.owner })}>{job.owner}</a>
            </dd>
          </>
        )}
        {job.preferred_cluster && (
          <>
            <dt>{t('job.wish')}</dt>
            <dd>{t(job.required ? 'job.requires' : 'job.prefers', { cluster: job.preferred_cluster })}</dd>
          </>
        )}
        <dt>{t('job.needs')}</dt>
        <dd class="num">{resources(job.demand) || t('none')}</dd>
        {job.tags && (
          <>
            <dt>{t('tags')}</dt>
            <dd>
              <Tags tags={job.tags} />
            </dd>
          </>
        )}
        <dt>{t('job.priority')}</dt>
        <dd class="num">{job.priority}</dd>
        <dt>{t('job.attempts')}</dt>
        <dd class="num">
          {job.attempts}
          {job.max_retries > 0 && <span class="muted"> · {t('job.retries', { n: job.max_retries })}</span>}
          {job.retry_on && <span class="muted"> · {t('job.retryOn', { codes: job.retry_on.join(', ') })}</span>}
          {job.never_retry_on && (
            <span class="muted"> · {t('job.neverRetryOn', { codes: job.never_retry_on.join(', ') })}</span>
          )}
        </dd>
        {(job.preemptible || job.stop_grace !== undefined) && (
          <>
            <dt>{t('job.stops')}</dt>
            <dd class="num">
              {job.preemptible && t('job.preemptible')}
              {job.preemptible && job.stop_grace !== undefined && ' · '}
              {job.stop_grace !== undefined && t('job.stopGrace', { n: job.stop_grace })}
            </dd>
          </>
        )}
        <dt>{t('job.submitted')}</dt>
        <dd class="num">
          <Clock at={job.submitted_at} />
        </dd>
        {job.running_at !== undefined && (
          <>
            <dt>{t('job.ran')}</dt>
            <dd>
              <Span from={job.running_at} to={job.ended_at} />
            </dd>
          </>
        )}
        {job.parent_job && (
          <>
            <dt>{t('job.parent')}</dt>
            <dd>
              <a class="mono" href={link.job(job.parent_job)}>
                {job.parent_job}
              </a>
            </dd>
          </>
        )}
        {metadata.map(([name, value]) => (
          <Fragment key={name}>
            <dt class="mono">{name}</dt>
            <dd class="mono">{value}</dd>
          </Fragment>
        ))}
      </dl>
    </section>
  );
}

function JobTimeline({ job }: { job: JobDetail }) {
  const events = useOwn(job.id, eventsOf).data.value;
  return (
    <section class="panel" aria-labelledby="timeline-title">
      <header>
        <h2 id="timeline-title">{t('timeline')}</h2>
      </header>
      {events ? <Timeline events={events} attempts={job.history} shown={headline(job)} /> : <Loading />}
    </section>
  );
}
