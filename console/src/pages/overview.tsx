// The pool at a glance.

import type { Cluster, Decision, History, Series, ClusterVerdict } from '../api/types';
import { duration, headline, number, roughly } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { stuck } from '../store/reasons';
import { now, untilNext } from '../store/clock';
import { may } from '../store/may';
import { clusters, decisions, failures, history, pool, queues, running } from '../store/pool';
import { useResource } from '../store/resource';
import { condition, ConditionBadge, healthNote, StateBadge, Tags } from '../ui/badges';
import { Bars, Sparkline } from '../ui/chart';
import { Empty, Loading, Problem } from '../ui/feedback';
import { Gauges } from '../ui/gauge';
import { GrowthNotes } from '../ui/growth';
import { Ago, Since } from '../ui/time';
import { reasonsInShort } from '../ui/verdicts';

/** Rows of each panel. */
const ROWS = 6;

export function OverviewPage() {
  useResource(clusters);
  useResource(history);
  const error = clusters.error.value;
  const items = clusters.data.value;
  return (
    <div class="page">
      <h1 class="sr-only">{t('overview')}</h1>
      {error && error.status !== 0 && <Problem error={error} retry={() => void clusters.refresh()} />}
      <Summary />
      {items === undefined ? (
        <Loading lines={4} />
      ) : items.length === 0 ? (
        <Empty title={t('overview.noClusters')}>{t('overview.noClustersHint')}</Empty>
      ) : (
        <div class="cards">
          {items.map((cluster) => (
            <ClusterCard cluster={cluster} key={cluster.name} />
          ))}
        </div>
      )}
      <div class="columns">
        <div class="column">
          <QueuePanel />
          <RunningPanel />
        </div>
        <div class="column">
          <FailuresPanel />
          <DecisionsPanel />
        </div>
      </div>
    </div>
  );
}

function Summary() {
  const all = useResource(pool).data.value;
  const queue = useResource(queues).data.value;
  const past = history.data.value;
  const rate = past && throughput(past);
  const heads = queue?.items.flatMap((each) => each.heads ?? []);
  const oldest = heads && Math.min(...heads.map((head) => head.queued_at));
  const never = heads && stuck(heads);
  const failed = past && failedInHour(past);
  return (
    <dl class="summary">
      <Figure
        name={t('overview.running')}
        value={all ? number(all.live) : '–'}
        to={link.jobsWith({ state: 'dispatching,pending,running,unknown' })}
      />
      <Figure
        name={t('overview.queued')}
        value={all ? number(all.waiting) : '–'}
        to={link.jobsWith({ state: 'queued' })}
      />
      <Figure
        name={t('overview.oldest')}
        value={oldest !== undefined && Number.isFinite(oldest) ? roughly(now.value - oldest) : '–'}
        to={link.jobsWith({ state: 'queued', sort: '-took' })}
      />
      <Figure
        name={t('jobs.never')}
        value={never === undefined ? '–' : number(never)}
        tone={never ? 'warn' : undefined}
        tip={t('jobs.neverTip')}
        to={link.jobsWith({ state: 'queued', never: '1' })}
      />
      <Figure
        name={t('overview.failed')}
        value={failed === undefined ? '–' : number(failed)}
        tone={failed ? 'bad' : undefined}
        to={link.jobsWith({ state: 'failed', since: '1h' })}
      />
      <Figure
        name={t('overview.available')}
        value={all ? `${all.available} / ${all.clusters}` : '–'}
        tone={all && all.available < all.clusters ? 'warn' : undefined}
      />
      <div class="figure figure-wide">
        <dt>{t('overview.throughput')}</dt>
        <dd>
          <span class="figure-value num">{rate ? number(rate.lastTen / 10, 1) : '–'}</span>
          <span class="muted">{t('overview.perMinute')}</span>
          {rate && <Bars good={rate.good} bad={rate.bad} label={t('overview.throughputHour')} />}
        </dd>
      </div>
    </dl>
  );
}

interface FigureProps {
  name: string;
  value: string;
  /** The list of what it counts. */
  to?: string;
  tone?: 'warn' | 'bad' | undefined;
  tip?: string;
}

function Figure({ name, value, to, tone, tip }: FigureProps) {
  return (
    <div class={to ? 'figure figure-link' : 'figure'} title={tip}>
      <dt>{name}</dt>
      <dd class={`figure-value num${tone ? ` figure-${tone}` : ''}`}>
        {to ? (
          <a class="stretched" href={to} aria-label={`${name}: ${value}`}>
            {value}
          </a>
        ) : (
          value
        )}
      </dd>
    </div>
  );
}

/** Failed jobs, tasks and actors of the last hour; what was before the start is unknown. */
function failedInHour({ pool: { failed }, step_seconds }: History): number {
  const steps = Math.round(3600 / step_seconds);
  return failed.slice(-steps).reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

/** Ended jobs per minute over the last hour, and in the last ten minutes. */
function throughput(past: History): { good: number[]; bad: number[]; lastTen: number } {
  const steps = Math.max(1, Math.round(60 / past.step_seconds));
  const good = perMinute(past.pool.succeeded, steps);
  const bad = perMinute(past.pool.failed, steps);
  const lastTen = [...good.slice(-10), ...bad.slice(-10)].reduce((sum, value) => sum + value, 0);
  return { good, bad, lastTen };
}

function perMinute(values: Series, steps: number): number[] {
  const sums: number[] = [];
  for (let end = values.length; end > 0; end -= steps) {
    sums.unshift(
      values.slice(Math.max(0, end - steps), end).reduce<number>((sum, value) => sum + (value ?? 0), 0),
    );
  }
  return sums;
}

function ClusterCard({ cluster }: { cluster: Cluster }) {
  const past = history.data.value?.clusters[cluster.name];
  const threshold = cluster.limits.resource_threshold;
  return (
    <article class="card" data-cluster={cluster.name}>
      <header>
        <h2>
          <a class="stretched" href={link.cluster(cluster.name)}>
            {cluster.name}
          </a>
        </h2>
        <ConditionBadge cluster={cluster} />
        <span class="grow" />
        <span class="muted">
          <b class="num strong">{number(cluster.live)}</b> {t('card.running')}
        </span>
      </header>
      {cluster.health.error ? (
        <p class="card-note bad clamp" title={cluster.health.error}>
          {healthNote(cluster)}
        </p>
      ) : (
        cluster.cordoned && <p class="card-note clamp">{cluster.cordoned}</p>
      )}
      <Gauges cluster={cluster} />
      <GrowthNotes cluster={cluster} />
      {past && (
        <div class="hour">
          <span class="muted">{t('card.hour')}</span>
          <Sparkline values={past.cpu} threshold={threshold} label={t('card.hour')} />
        </div>
      )}
      <footer>
        <Tags tags={cluster.tags} />
        <span class="muted">
          {t('weight')} <span class="num">{number(cluster.weight, 2)}</span>
          {cluster.prefer && ` · ${t('prefer')}`}
          {cluster.breaker.state !== 'closed' && ` · ${word('is', `breaker_${cluster.breaker.state}`)}`}
        </span>
        <span class="grow" />
        {condition(cluster).name === 'healthy' && <Next cluster={cluster} />}
      </footer>
    </article>
  );
}

/** "next submission in 23 s", counting down; or why no job would go there now. */
function Next({ cluster }: { cluster: Cluster }) {
  const { closed } = cluster;
  if (closed && closed.reason !== 'too_soon') {
    return (
      <span class="next" title={closed.text}>
        {t('card.closed', { why: word('is', closed.reason) })}
      </span>
    );
  }
  const left = untilNext(cluster);
  return (
    <span class={left ? 'next' : 'next muted'}>
      {left ? t('card.nextIn', { time: duration(left) }) : t('card.nextNow')}
    </span>
  );
}

function QueuePanel() {
  const answer = useResource(queues).data.value;
  const heads = answer?.items.flatMap((queue) => queue.heads?.map((head) => ({ head, queue })) ?? []) ?? [];
  return (
    <section class="panel" aria-labelledby="overview-queue">
      <header>
        <h2 id="overview-queue">{t('queue')}</h2>
        <span class="grow" />
        <a href={link.queue}>{t('overview.allQueues')}</a>
      </header>
      {answer === undefined ? (
        <Loading />
      ) : answer.waiting === 0 ? (
        <Empty title={t('queue.empty')}>{t('queue.emptyHint')}</Empty>
      ) : (
        <ul class="rows">
          {heads.slice(0, ROWS).map(({ head }) => (
            <li key={head.id}>
              <div class="row-first">
                <a class="stretched mono" href={link.job(head.id)}>
                  {head.id}
                </a>
                {head.waiting > 1 && <span class="muted">{t('queue.alike', { n: head.waiting - 1 })}</span>}
                <span class="grow" />
                <span class="muted">
                  <Since at={head.queued_at} />
                </span>
              </div>
              <span class="row-second muted">{reasonsInShort(head.clusters)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The latest failures with their reasons. */
function FailuresPanel() {
  const items = useResource(failures).data.value;
  return (
    <section class="panel" aria-labelledby="overview-failures">
      <header>
        <h2 id="overview-failures">{t('overview.failures')}</h2>
        <span class="grow" />
        <a href={link.jobsWith({ state: 'failed' })}>{t('overview.allFailures')}</a>
      </header>
      {items === undefined ? (
        <Loading />
      ) : items.length === 0 ? (
        <Empty title={t('overview.noFailures')} />
      ) : (
        <ul class="rows">
          {items.slice(0, ROWS).map((job) => (
            <li key={job.id}>
              <div class="row-first">
                <a class="stretched mono" href={link.job(job.id)}>
                  {job.id}
                </a>
                <span class="muted cut">{[job.cluster, job.owner].filter(Boolean).join(' · ')}</span>
                <span class="grow" />
                <span class="muted">
                  <Ago at={job.ended_at ?? job.submitted_at} />
                </span>
              </div>
              <span class="row-second bad">{headline(job)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** What has run longest: a job that hangs is at the top. */
function RunningPanel() {
  const items = useResource(running).data.value;
  return (
    <section class="panel" aria-labelledby="overview-running">
      <header>
        <h2 id="overview-running">{t('overview.longest')}</h2>
        <span class="grow" />
        <a href={link.jobsWith({ state: 'dispatching,pending,running,unknown', sort: '-took' })}>
          {t('cluster.allJobs')}
        </a>
      </header>
      {items === undefined ? (
        <Loading />
      ) : items.length === 0 ? (
        <Empty title={t('overview.nothingRuns')} />
      ) : (
        <ul class="rows">
          {items.slice(0, ROWS).map((job) => (
            <li key={job.id}>
              <div class="row-first">
                <StateBadge state={job.state} stopping={job.stopping} />
                <a class="stretched mono" href={link.job(job.id)}>
                  {job.id}
                </a>
                <span class="muted cut">{[job.cluster, job.owner].filter(Boolean).join(' · ')}</span>
                <span class="grow" />
                <span class="muted">
                  <Since at={job.running_at ?? job.dispatched_at ?? job.submitted_at} />
                </span>
              </div>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function DecisionsPanel() {
  useResource(decisions);
  const items = decisions.data.value;
  return (
    <section class="panel" aria-labelledby="overview-decisions">
      <header>
        <h2 id="overview-decisions">{t('decisions.recent')}</h2>
      </header>
      {items === undefined ? (
        <Loading />
      ) : items.length === 0 ? (
        <Empty title={t('decisions.none')}>
          {may('submit') && <a href={link.submit}>{t('submit.first')}</a>}
        </Empty>
      ) : (
        <ul class="rows">
          {items.slice(0, ROWS).map((decision) => (
            <li key={`${decision.job} ${decision.attempt}`}>
              <div class="row-first">
                <a class="stretched mono" href={link.job(decision.job)}>
                  {decision.job}
                </a>
                <span class="arrow" aria-hidden="true">
                  →
                </span>
                <span class="strong">{decision.cluster}</span>
                <span class="grow" />
                <span class="muted">
                  <Ago at={decision.at} />
                </span>
              </div>
              <span class="row-second muted">{inWords(decision)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Why the job went to this cluster, and the reasons of the others. */
function inWords({ clusters: verdicts, cluster }: Decision): string {
  const others = verdicts.filter((each) => each.cluster !== cluster);
  return [whyThere(verdicts, cluster), reasonsInShort(others)].filter(Boolean).join(' · ');
}

function whyThere(verdicts: ClusterVerdict[], cluster: string): string {
  const { score = 0, grows_by } = verdicts.find((each) => each.cluster === cluster) ?? {};
  const grows = grows_by ? `${t('decisions.grows', { n: grows_by })} · ` : '';
  const able = verdicts.filter((each) => each.cluster !== cluster && each.verdict !== 'rejected');
  // Clusters that have the room come first, whatever the score of others.
  const rivals = able.filter((each) => grows_by || !each.grows_by);
  if (verdicts.length === 1) return grows + t('decisions.one');
  if (able.length === 0) return grows + t('decisions.only');
  if (rivals.length === 0) return t('decisions.room', { others: able.map((each) => each.cluster).join(', ') });
  const equal = rivals.filter((each) => each.score === score);
  if (equal.length > 0) {
    return grows + t('decisions.tie', {
      score: number(score, 2),
      others: equal.map((each) => each.cluster).join(', '),
    });
  }
  const others = rivals.map((each) => `${each.cluster} ${number(each.score ?? 0, 2)}`).join(', ');
  return grows + t('decisions.best', { score: number(score, 2), others });
}
