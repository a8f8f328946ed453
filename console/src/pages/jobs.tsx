// All jobs: found by state, time, cluster, owner, kind, tag or text; sorted; many at once.

import { effect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect } from 'preact/hooks';
import type { Job } from '../api/types';
import { exitCode, headline, number, onlyExit, resources } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { now } from '../store/clock';
import { sortText, tookFrom, type SortKey } from '../store/joblist';
import { error, jobs, loadMatching, loadOlder, loading, older, reload, want } from '../store/jobs';
import { may } from '../store/may';
import { StateBadge, Tags } from '../ui/badges';
import { Empty, Loading, Problem } from '../ui/feedback';
import { isNarrow } from '../ui/media';
import { Search } from '../ui/search';
import { Clock, Span } from '../ui/time';
import { reasonsInOne } from '../ui/verdicts';
import { Cell, Head, VirtualList } from '../ui/virtual';
import {
  clear,
  Filters,
  filter,
  isSet,
  keepTextInAddress,
  ownersSeen,
  reasonsOf,
  set,
  shown,
  sort,
  States,
  text,
} from './jobfilter';
import { PickAll, PickOne, SelectionBar } from './selection';

export function JobsPage() {
  useEffect(want, []);
  // In the layout effect: a moment later the user may already be typing.
  useLayoutEffect(keepTextInAddress, []);
  useEffect(askForOlder, []);
  const isFiltered = isSet();
  return (
    <div class="page page-fill">
      <header class="page-head">
        <h1>{t('jobs')}</h1>
        <span class="muted num" data-count={shown.value.length}>
          {isFiltered
            ? `${number(shown.value.length)} / ${number(jobs.value.length)}`
            : number(jobs.value.length)}
          {older.value && '+'}
        </span>
        <Search value={text} label={t('jobs.search')} />
        <span class="grow" />
        <Filters />
      </header>
      <States />
      {may('submit') && <SelectionBar shown={shown.value} />}
      {error.value && error.value.status !== 0 && <Problem error={error.value} retry={() => void reload()} />}
      {shown.value.length > 0 ? (
        <JobTable />
      ) : loading.value ? (
        <Loading lines={8} />
      ) : (
        <section class="panel">
          {isFiltered ? (
            <Empty title={t('jobs.noMatch')}>
              <button type="button" onClick={clear}>
                {t('jobs.clear')}
              </button>
            </Empty>
          ) : (
            <Empty title={t('jobs.none')}>
              <p>{t('jobs.noneHint')}</p>
              <pre class="command">ray job submit --address {location.origin} -- python train.py</pre>
              {may('submit') && <a href={link.submit}>{t('submit.first')}</a>}
            </Empty>
          )}
        </section>
      )}
    </div>
  );
}

function JobTable() {
  const owned = ownersSeen.value.length > 0;
  const picks = may('submit');
  return (
    <>
      <VirtualList
        class={`jobs${owned ? ' jobs-owned' : ''}${picks ? ' jobs-picks' : ''}`}
        label={t('jobs')}
        items={shown.value}
        rowHeight={isNarrow.value ? 62 : 36}
        header={
          <>
            {picks && (
              <Head class="c-pick">
                <PickAll shown={shown.value} />
              </Head>
            )}
            <SortHead by="state" class="c-state">
              {t('state')}
            </SortHead>
            <SortHead by="id" class="c-id">
              {t('job.id')}
            </SortHead>
            <Head class="c-entry">
              {t('job.entrypoint')}
              <span class="or-why"> · {t('jobs.why')}</span>
            </Head>
            <Head class="c-why">{t('jobs.why')}</Head>
            <SortHead by="cluster" class="c-cluster">
              {t('cluster')}
            </SortHead>
            {owned && (
              <SortHead by="owner" class="c-owner">
                {t('owner')}
              </SortHead>
            )}
            <Head class="c-tags">{t('tags')}</Head>
            <Head class="c-needs">{t('job.needs')}</Head>
            <SortHead by="submitted" class="c-time right">
              {t('job.submitted')}
            </SortHead>
            <SortHead by="took" class="c-span right">
              {t('job.took')}
            </SortHead>
          </>
        }
        row={(job) => row(job, owned, picks)}
      />
      {older.value && !loading.value && (
        <footer class="list-foot muted">
          {t('jobs.older', { n: jobs.value.length })}{' '}
          <button type="button" onClick={() => void loadOlder()}>
            {t('jobs.loadOlder')}
          </button>
        </footer>
      )}
    </>
  );
}

/** A click sorts by the column, another one turns it around. Times begin with the latest or longest. */
function SortHead({ by, class: name, children }: { by: SortKey; class: string; children: ComponentChildren }) {
  const current = sort.value.by === by;
  const startsUp = by !== 'submitted' && by !== 'took';
  const next = { by, up: current ? !sort.value.up : startsUp };
  return (
    <Head class={name} sorted={current ? (sort.value.up ? 'ascending' : 'descending') : undefined}>
      <button type="button" class="sort" data-sort={by} onClick={() => set('sort', sortText(next))}>
        {children}
        {current && <span aria-hidden="true">{sort.value.up ? '↑' : '↓'}</span>}
      </button>
    </Head>
  );
}

function row(job: Job, owned: boolean, picks: boolean) {
  return (
    <>
      {picks && (
        <Cell class="c-pick">
          <PickOne job={job} shown={shown} />
        </Cell>
      )}
      <Cell class="c-state">
        <StateBadge state={job.state} stopping={job.stopping} />
      </Cell>
      <Cell class="c-id">
        <a class="stretched mono" href={link.job(job.id)} title={job.id}>
          {job.id}
        </a>
      </Cell>
      <Cell class="c-entry mono muted" title={job.entrypoint}>
        {job.entrypoint ?? word('kind', job.kind)}
      </Cell>
      <Why job={job} />
      <Cell class="c-cluster" title={job.cluster}>
        {job.cluster ?? (job.preferred_cluster && <span class="muted">({job.preferred_cluster})</span>)}
      </Cell>
      {owned && (
        <Cell class="c-owner" title={job.owner}>
          {job.owner}
        </Cell>
      )}
      <Cell class="c-tags">
        <Tags tags={job.tags} most={2} />
      </Cell>
      <Cell class="c-needs num muted">{resources(job.demand)}</Cell>
      <Cell class="c-time num muted right">
        <Clock at={job.submitted_at} />
      </Cell>
      <Cell class="c-span right">
        <Took job={job} />
      </Cell>
    </>
  );
}

/** Why it is queued, or why it failed. */
function Why({ job }: { job: Job }) {
  if (job.state === 'queued') {
    const head = reasonsOf.value(job);
    const why = head ? reasonsInOne(head.clusters) : job.waits_for;
    return (
      <Cell class="c-why muted" title={head?.summary ?? job.waits_for}>
        {why}
      </Cell>
    );
  }
  if (job.state !== 'failed') return <Cell class="c-why" />;
  const line = headline(job);
  // Without output, the line is the exit code.
  const code = line === onlyExit(job) ? undefined : exitCode(job);
  return (
    <Cell class="c-why" title={line}>
      {code !== undefined && <span class="exit num">{t('job.exit', { n: code })} </span>}
      <span class="muted">{line}</span>
    </Cell>
  );
}

/** How long the job has been queued or running; of an ended job, how long it ran. */
function Took({ job }: { job: Job }) {
  const from = tookFrom(job);
  if (from === undefined) return <span class="muted">–</span>;
  return <Span from={Math.min(from, now.peek())} to={job.ended_at} />;
}

/** While older jobs are not loaded, the control plane searches those too. */
function askForOlder(): () => void {
  let soon: ReturnType<typeof setTimeout>;
  const forget = effect(() => {
    const wanted = filter.value;
    clearTimeout(soon);
    if (older.value && isSet()) soon = setTimeout(() => void loadMatching(wanted), 300);
  });
  return () => {
    clearTimeout(soon);
    forget();
  };
}
