// All jobs: found by state, cluster, kind, tag or text. The filter is in the address.

import { computed, effect, signal } from '@preact/signals';
import { useEffect, useLayoutEffect } from 'preact/hooks';
import { KINDS, STATES, type Job, type Kind, type State } from '../api/types';
import { number, resources } from '../format';
import { t, word } from '../i18n';
import { link, params, setParams } from '../router';
import { now } from '../store/clock';
import { count, matching, type Filter } from '../store/joblist';
import { error, jobs, loadMatching, loadOlder, loading, older, reload, want } from '../store/jobs';
import { clusters } from '../store/pool';
import { useResource } from '../store/resource';
import { StateBadge, Tags } from '../ui/badges';
import { Empty, Loading, Problem } from '../ui/feedback';
import { isNarrow } from '../ui/media';
import { Search } from '../ui/search';
import { Clock, Span } from '../ui/time';
import { Cell, Head, VirtualList } from '../ui/virtual';

const text = signal('');
const filter = computed(() => read(params.value, text.value));
const shown = computed(() => jobs.value.filter(matching(filter.value)));
const counts = computed(() => count(jobs.value.filter(matching({ ...filter.value, states: [] }))));
/** The tags that occur, for the list to choose from. */
const tags = computed(() =>
  [...new Set(jobs.value.flatMap((job) => job.tags ?? []))].toSorted().slice(0, 200),
);

function read(query: URLSearchParams, words: string): Filter {
  const states = (query.get('state') ?? '')
    .split(',')
    .filter((each): each is State => STATES.includes(each as State));
  const kind = KINDS.find((each) => each === query.get('kind'));
  const [cluster, tag] = [query.get('cluster'), query.get('tag')];
  return { states, text: words, ...(kind && { kind }), ...(cluster && { cluster }), ...(tag && { tag }) };
}

export function JobsPage() {
  useEffect(want, []);
  // In the layout effect: a moment later the user may already be typing.
  useLayoutEffect(keepTextInAddress, []);
  useEffect(askForOlder, []);
  const isFiltered = isSet(filter.value);
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
              <a href={link.submit}>{t('submit.first')}</a>
            </Empty>
          )}
        </section>
      )}
    </div>
  );
}

function JobTable() {
  return (
    <>
      <VirtualList
        class="jobs"
        label={t('jobs')}
        items={shown.value}
        rowHeight={isNarrow.value ? 62 : 36}
        header={
          <>
            <Head class="c-state">{t('state')}</Head>
            <Head class="c-id">{t('job.id')}</Head>
            <Head class="c-entry">{t('job.entrypoint')}</Head>
            <Head class="c-cluster">{t('cluster')}</Head>
            <Head class="c-tags">{t('tags')}</Head>
            <Head class="c-needs">{t('job.needs')}</Head>
            <Head class="c-time right">{t('job.submitted')}</Head>
            <Head class="c-span right">{t('job.took')}</Head>
          </>
        }
        row={row}
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

function row(job: Job) {
  return (
    <>
      <Cell class="c-state">
        <StateBadge state={job.state} stopping={job.stopping} />
      </Cell>
      <Cell class="c-id">
        <a class="stretched mono" href={link.job(job.id)}>
          {job.id}
        </a>
      </Cell>
      <Cell class="c-entry mono muted">{job.entrypoint ?? word('kind', job.kind)}</Cell>
      <Cell class="c-cluster">
        {job.cluster ?? (job.preferred_cluster && <span class="muted">({job.preferred_cluster})</span>)}
      </Cell>
      <Cell class="c-tags">
        <Tags tags={job.tags} />
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

/** How long the job has been queued or running; of an ended job, how long it ran. */
function Took({ job }: { job: Job }) {
  const from = job.running_at ?? job.queued_at ?? job.submitted_at;
  if (job.ended_at !== undefined && job.running_at === undefined) return <span class="muted">–</span>;
  return <Span from={Math.min(from, now.peek())} to={job.ended_at} />;
}

/** The number of jobs in each state; a click shows only those. */
function States() {
  const chosen = filter.value.states;
  const toggle = (state: State): void => {
    const next = chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state];
    set('state', next.join(','));
  };
  return (
    <div class="state-filter" role="group" aria-label={t('state')}>
      {STATES.map((state) => (
        <button
          type="button"
          key={state}
          data-filter={state}
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateBadge state={state} />
          <span class="num muted">{number(counts.value[state])}</span>
        </button>
      ))}
    </div>
  );
}

function Filters() {
  useResource(clusters);
  const names = clusters.data.value?.map((each) => each.name) ?? [];
  const { kind, cluster, tag } = filter.value;
  return (
    <div class="filters">
      <Choice name="cluster" all={t('jobs.anyCluster')} value={cluster} choices={names} />
      <Choice
        name="kind"
        all={t('jobs.anyKind')}
        value={kind}
        choices={[...KINDS]}
        show={(each) => word('kind', each)}
      />
      <Choice name="tag" all={t('jobs.anyTag')} value={tag} choices={tags.value} />
    </div>
  );
}

interface ChoiceProps {
  name: string;
  all: string;
  value: string | undefined;
  choices: string[];
  show?: (value: Kind) => string;
}

function Choice({ name, all, value, choices, show }: ChoiceProps) {
  // A value from the address stays chosen even if it is not among the choices.
  const offered = value && !choices.includes(value) ? [value, ...choices] : choices;
  return (
    <select
      name={name}
      aria-label={all}
      value={value ?? ''}
      onChange={(event) => set(name, event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {offered.map((each) => (
        <option value={each} key={each}>
          {show ? show(each as Kind) : each}
        </option>
      ))}
    </select>
  );
}

function set(name: string, value: string): void {
  const next = new URLSearchParams(params.peek());
  if (value) next.set(name, value);
  else next.delete(name);
  setParams(next);
}

function clear(): void {
  text.value = '';
  setParams(new URLSearchParams());
}

function isSet({ states, kind, cluster, tag, text: words }: Filter): boolean {
  return states.length > 0 || Boolean(kind ?? cluster ?? tag) || words.trim() !== '';
}

/** The search text starts from the address and is written back to it. */
function keepTextInAddress(): () => void {
  text.value = params.peek().get('q') ?? '';
  return effect(() => set('q', text.value));
}

/** While older jobs are not loaded, the control plane searches those too. */
function askForOlder(): () => void {
  let soon: ReturnType<typeof setTimeout>;
  const forget = effect(() => {
    const wanted = filter.value;
    clearTimeout(soon);
    if (older.value && isSet(wanted)) soon = setTimeout(() => void loadMatching(wanted), 300);
  });
  return () => {
    clearTimeout(soon);
    forget();
  };
}
