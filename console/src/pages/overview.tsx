// The pool at a glance.

import type { Cluster, Decision, History, Series, ClusterVerdict } from '../api/types';
import { duration, number } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { untilNext } from '../store/clock';
import { clusters, decisions, history, pool, queues } from '../store/pool';
import { useResource } from '../store/resource';
import { condition, ConditionBadge, healthNote, Tags } from '../ui/badges';
import { Bars, Sparkline } from '../ui/chart';
import { Empty, Loading, Problem } from '../ui/feedback';
import { Gauges } from '../ui/gauge';
import { Ago, Since } from '../ui/time';
import { reasonsInShort } from '../ui/verdicts';

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
        <QueuePanel />
        <DecisionsPanel />
      </div>
    </div>
  );
}

function Summary() {
  const all = useResource(pool).data.value;
  const past = history.data.value;
  const rate = past && throughput(past);
  return (
    <dl class="summary">
      <Figure name={t('overview.running')} value={all ? number(all.live) : '–'} />
      <Figure name={t('overview.queued')} value={all ? number(all.waiting) : '–'} />
      <Figure name={t('overview.available')} value={all ? `${all.available} / ${all.clusters}` : '–'} />
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

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd class="figure-value num">{value}</dd>
    </div>
  );
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
          {heads.slice(0, 8).map(({ head }) => (
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
          <a href={link.submit}>{t('submit.first')}</a>
        </Empty>
      ) : (
        <ul class="rows">
          {items.slice(0, 8).map((decision) => (
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
  const score = verdicts.find((each) => each.cluster === cluster)?.score ?? 0;
  const rivals = verdicts.filter((each) => each.cluster !== cluster && each.verdict !== 'rejected');
  if (verdicts.length === 1) return t('decisions.one');
  if (rivals.length === 0) return t('decisions.only');
  const equal = rivals.filter((each) => each.score === score);
  if (equal.length > 0) {
    return t('decisions.tie', {
      score: number(score, 2),
      others: equal.map((each) => each.cluster).join(', '),
    });
  }
  const others = rivals.map((each) => `${each.cluster} ${number(each.score ?? 0, 2)}`).join(', ');
  return t('decisions.best', { score: number(score, 2), others });
}
