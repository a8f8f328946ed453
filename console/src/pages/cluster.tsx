// One cluster: its utilization, limits, facts and jobs, and what an operator can do with it.

import { Fragment } from 'preact';
import { get, post, segment } from '../api/client';
import type { Cluster, Event, Job, Page } from '../api/types';
import { duration, headline, number, part, percent, resources } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { untilNext } from '../store/clock';
import { clusters, history } from '../store/pool';
import { Resource, useOwn, useResource } from '../store/resource';
import { Act } from '../ui/act';
import { condition, ConditionBadge, healthNote, StateBadge, Tags } from '../ui/badges';
import { Chart } from '../ui/chart';
import { confirm } from '../ui/dialog';
import { attempt, Empty, Loading, Problem } from '../ui/feedback';
import { Gauges } from '../ui/gauge';
import { GrowthNotes } from '../ui/growth';
import { BackIcon } from '../ui/icons';
import { Outside } from '../ui/outside';
import { Ago } from '../ui/time';

const path = (name: string): string => `/v1/clusters/${segment(name)}`;

/** Live jobs first, then the latest that ended. */
const jobsOf = (name: string) =>
  new Resource(
    async (signal) => {
      const query = { cluster: name, limit: 20 };
      const states = ['dispatching,pending,running,unknown', 'succeeded,failed,stopped'];
      const pages = states.map((state) => get<Page<Job>>('/v1/jobs', { ...query, state }, signal));
      return (await Promise.all(pages)).flatMap((page) => page.items).slice(0, 20);
    },
    { concerns: (event: Event) => event.type === 'job' && event.cluster === name },
  );

export function ClusterPage({ name }: { name: string }) {
  useResource(clusters);
  const { data, error } = clusters;
  const cluster = data.value?.find((each) => each.name === name);
  return (
    <div class="page">
      <a class="back" href={link.overview}>
        <BackIcon /> {t('overview')}
      </a>
      {error.value && error.value.status !== 0 && <Problem error={error.value} />}
      {cluster ? (
        <Shown cluster={cluster} />
      ) : data.value ? (
        <section class="panel">
          <Empty title={t('cluster.unknown', { name })}>
            {t('cluster.known', { names: data.value.map((each) => each.name).join(', ') })}
          </Empty>
        </section>
      ) : (
        <Loading lines={6} />
      )}
    </div>
  );
}

function Shown({ cluster }: { cluster: Cluster }) {
  return (
    <>
      <header class="page-head">
        <h1>{cluster.name}</h1>
        <ConditionBadge cluster={cluster} />
        <Tags tags={cluster.tags} />
        <span class="grow" />
        <Actions cluster={cluster} />
      </header>
      {cluster.cordoned !== undefined && (
        <p class="message" data-note>
          {word('is', cluster.draining ? 'draining' : 'cordoned')}
          {cluster.cordoned && `: ${cluster.cordoned}`}
        </p>
      )}
      {cluster.health.error && (
        <p class="message message-bad">
          {healthNote(cluster)}
        </p>
      )}
      <div class="split">
        <div class="split-main">
          <section class="panel" aria-label={t('cluster.load')}>
            <Gauges cluster={cluster} />
            <GrowthNotes cluster={cluster} />
            <Charts cluster={cluster} />
          </section>
          <JobsPanel name={cluster.name} />
        </div>
        <div class="split-side">
          <Facts cluster={cluster} />
          <Environment cluster={cluster} />
        </div>
      </div>
    </>
  );
}

function Actions({ cluster }: { cluster: Cluster }) {
  const { name } = cluster;
  const act = async (verb: string, done: string, body?: unknown): Promise<void> => {
    await attempt(() => post(`${path(name)}/${verb}`, body), done);
    void clusters.refresh();
  };
  const keepAway = async (verb: 'cordon' | 'drain'): Promise<void> => {
    const note = await confirm({
      title: t(`${verb}.title`, { name }),
      text: t(`${verb}.text`),
      action: t(verb),
      note: t('cordon.note'),
    });
    if (note !== undefined) await act(verb, t(`${verb}.done`, { name }), { note });
  };
  return (
    <div class="actions">
      <Act needs="admin" data-action="check" onClick={() => void act('check', t('check.done', { name }))}>
        {t('check')}
      </Act>
      {cluster.cordoned === undefined ? (
        <Act needs="admin" data-action="cordon" onClick={() => void keepAway('cordon')}>
          {t('cordon')}
        </Act>
      ) : (
        <Act
          needs="admin"
          data-action="uncordon"
          onClick={() => void act('uncordon', t('uncordon.done', { name }))}
        >
          {t('uncordon')}
        </Act>
      )}
      {!cluster.draining && (
        <Act needs="admin" data-action="drain" onClick={() => void keepAway('drain')}>
          {t('drain')}
        </Act>
      )}
    </div>
  );
}

function Charts({ cluster }: { cluster: Cluster }) {
  useResource(history);
  const past = history.data.value;
  const mine = past?.clusters[cluster.name];
  if (!past || !mine) return <p class="muted panel-foot">{t('cluster.noHistory')}</p>;
  const hasGpu = mine.gpu.some((value) => value !== null);
  return (
    <>
      <Chart
        title={t('cluster.used')}
        moments={past.moments}
        max={1}
        threshold={cluster.limits.resource_threshold}
        show={percent}
        lines={[
          { name: 'CPU', values: mine.cpu, colour: 1 },
          ...(hasGpu ? [{ name: 'GPU', values: mine.gpu, colour: 2 }] : []),
          { name: t('memory'), values: mine.memory, colour: 3 },
        ]}
      />
      <Chart
        title={t('cluster.work')}
        moments={past.moments}
        show={(value) => (value === null || value === undefined ? '–' : number(value, 1))}
        lines={[
          { name: t('overview.running'), values: mine.live, colour: 1 },
          { name: t('overview.queued'), values: mine.waiting, colour: 3 },
        ]}
      />
    </>
  );
}

function JobsPanel({ name }: { name: string }) {
  const items = useOwn(name, jobsOf).data.value;
  return (
    <section class="panel" aria-labelledby="cluster-jobs">
      <header>
        <h2 id="cluster-jobs">{t('cluster.jobs')}</h2>
        <span class="grow" />
        <a href={link.jobsOf(name)}>{t('cluster.allJobs')}</a>
      </header>
      {items === undefined ? (
        <Loading />
      ) : items.length === 0 ? (
        <Empty title={t('cluster.noJobs')} />
      ) : (
        <ul class="rows">
          {items.map((job) => (
            <li key={job.id} class="row-first">
              <StateBadge state={job.state} stopping={job.stopping} />
              <a class="stretched mono" href={link.job(job.id)}>
                {job.id}
              </a>
              <span class="muted cut">
                {[job.owner, job.state === 'failed' && headline(job)].filter(Boolean).join(' · ')}
              </span>
              <span class="grow" />
              <span class="muted">
                <Ago at={job.ended_at ?? job.running_at ?? job.dispatched_at ?? job.submitted_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Facts({ cluster }: { cluster: Cluster }) {
  const { limits, elastic } = cluster;
  const takes = condition(cluster).name === 'healthy';
  const left = untilNext(cluster);
  const custom = Object.entries(cluster.total ?? {}).filter(
    ([name]) => !['CPU', 'GPU', 'memory'].includes(name),
  );
  return (
    <section class="panel" aria-label={t('details')}>
      <dl class="facts">
        <dt>{t('cluster.next')}</dt>
        <dd class="num">
          {takes ? (left ? t('next.in', { time: duration(left) }) : t('next.now')) : t('none')}
        </dd>
        <dt>{t('cluster.interval')}</dt>
        <dd class="num">{duration(limits.submission_interval_seconds * 1000)}</dd>
        <dt>{t('cluster.threshold')}</dt>
        <dd class="num">{percent(limits.resource_threshold)}</dd>
        <dt>{t('cluster.jobsAtOnce')}</dt>
        <dd class="num">
          {number(cluster.top_level_jobs)}
          {limits.max_running_jobs !== undefined && ` / ${number(limits.max_running_jobs)}`}
        </dd>
        <dt>{t('cluster.circuit')}</dt>
        <dd>{word('is', `breaker_${cluster.breaker.state}`)}</dd>
        <dt>{t('weight')}</dt>
        <dd class="num">
          {number(cluster.weight, 2)}
          {cluster.prefer && ` · ${t('prefer')}`}
        </dd>
        {cluster.reserved_for && (
          <>
            <dt>{t('cluster.reserved')}</dt>
            <dd>
              <a class="mono" href={link.job(cluster.reserved_for)}>
                {cluster.reserved_for}
              </a>
            </dd>
          </>
        )}
        {custom.map(([resource, total]) => (
          <Fragment key={resource}>
            <dt class="mono">{resource}</dt>
            <dd class="num">{part(resource, cluster.used?.[resource] ?? 0, total)}</dd>
          </Fragment>
        ))}
        <dt>{t('cluster.claimed')}</dt>
        <dd class="num">{resources(cluster.claimed) || '–'}</dd>
        <dt>{t('cluster.promised')}</dt>
        <dd class="num">{resources(cluster.promised) || '–'}</dd>
        <dt>{t('cluster.nodes')}</dt>
        <dd class="num">{cluster.nodes ?? '–'}</dd>
        {elastic && (
          <>
            <dt>{t('growth.max')}</dt>
            <dd class="num">{resources(elastic.max)}</dd>
            <dt>{t('growth.node')}</dt>
            <dd class="num">{resources(elastic.node)}</dd>
            <dt>{t('growth.within')}</dt>
            <dd class="num">{duration(elastic.within_seconds * 1000)}</dd>
          </>
        )}
        <dt>{t('cluster.platform')}</dt>
        <dd>{[cluster.os, cluster.arch].filter(Boolean).join(' · ') || '–'}</dd>
        <dt>Ray · Python</dt>
        <dd class="num">
          {cluster.ray_version ?? '–'} · {cluster.python_version ?? '–'}
        </dd>
        <dt>{t('cluster.dashboard')}</dt>
        <dd class="mono">
          <Outside to={cluster.dashboard}>{cluster.dashboard}</Outside>
        </dd>
        <dt>Ray Client</dt>
        <dd class="mono">{cluster.head_address}</dd>
        {cluster.snapshot_at !== undefined && (
          <>
            <dt>{t('cluster.asOf')}</dt>
            <dd>
              <Ago at={cluster.snapshot_at} />
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Environment({ cluster }: { cluster: Cluster }) {
  if (Object.keys(cluster.runtime_env).length === 0) return null;
  return (
    <section class="panel" aria-labelledby="environment-title">
      <header>
        <h2 id="environment-title">runtime_env</h2>
      </header>
      <pre class="code">{JSON.stringify(cluster.runtime_env, null, 2)}</pre>
    </section>
  );
}
