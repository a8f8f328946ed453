// Events as they happen.

import { computed, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Event } from '../api/types';
import { headline } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { connection, recent } from '../store/live';
import { StateBadge } from '../ui/badges';
import { Empty, Loading } from '../ui/feedback';
import { isNarrow } from '../ui/media';
import { Search } from '../ui/search';
import { Clock } from '../ui/time';
import { Cell, Head, VirtualList } from '../ui/virtual';

type About = 'all' | 'job' | 'cluster';

/** The configuration belongs to the clusters. */
const isAbout = (about: About, { type }: Event): boolean =>
  about === 'all' || (type === 'job') === (about === 'job');

export function EventsPage() {
  const about = useSignal<About>('all');
  const text = useSignal('');
  const owner = useSignal('');
  /** The events shown while the page is paused. */
  const frozen = useSignal<Event[] | undefined>(undefined);
  const shown = useMemo(
    () =>
      computed(() => {
        const words = text.value.toLowerCase();
        const events = frozen.value ?? recent.value;
        return events
          .filter((event) => isAbout(about.value, event) && contains(event, words))
          .filter((event) => !owner.value || isOf(event, owner.value))
          .toReversed();
      }),
    [],
  );
  const waiting = frozen.value
    ? recent.value.filter((event) => event.seq > (frozen.value!.at(-1)?.seq ?? 0)).length
    : 0;

  return (
    <div class="page page-fill">
      <header class="page-head">
        <h1>{t('events')}</h1>
        <Search value={text} label={t('events.search')} />
        <div class="segments" role="group" aria-label={t('events.about')}>
          {(['all', 'job', 'cluster'] as const).map((each) => (
            <button
              type="button"
              key={each}
              aria-pressed={about.value === each}
              onClick={() => (about.value = each)}
            >
              {t(`events.${each}`)}
            </button>
          ))}
        </div>
        {owners.value.length > 0 && (
          <select
            name="owner"
            aria-label={t('jobs.anyOwner')}
            value={owner.value}
            onChange={(event) => (owner.value = event.currentTarget.value)}
          >
            <option value="">{t('jobs.anyOwner')}</option>
            {owners.value.map((each) => (
              <option value={each} key={each}>
                {each}
              </option>
            ))}
          </select>
        )}
        <span class="grow" />
        <button
          type="button"
          aria-pressed={frozen.value !== undefined}
          onClick={() => (frozen.value = frozen.value ? undefined : recent.value)}
        >
          {frozen.value ? t('events.resume', { n: waiting }) : t('events.pause')}
        </button>
      </header>
      {shown.value.length > 0 ? (
        <VirtualList
          class={owners.value.length > 0 ? 'events events-owned' : 'events'}
          label={t('events')}
          items={shown.value}
          rowHeight={isNarrow.value ? 56 : 34}
          header={
            <>
              <Head class="c-time">{t('time')}</Head>
              <Head class="c-what">{t('events.what')}</Head>
              <Head class="c-who">{t('events.who')}</Head>
              {owners.value.length > 0 && <Head class="c-owner">{t('owner')}</Head>}
              <Head class="c-cluster">{t('cluster')}</Head>
              <Head class="c-text">{t('events.message')}</Head>
            </>
          }
          row={row}
        />
      ) : connection.value === 'connecting' ? (
        <Loading lines={6} />
      ) : (
        <section class="panel">
          <Empty title={recent.value.length === 0 ? t('events.none') : t('events.noMatch')}>
            {recent.value.length === 0 && t('events.noneHint')}
          </Empty>
        </section>
      )}
    </div>
  );
}

/** Whose jobs the events are about, and who asked for them. */
const owners = computed(() =>
  [...new Set(recent.value.flatMap((event) => people(event)))].toSorted().slice(0, 200),
);

function people(event: Event): string[] {
  return [event.type === 'job' ? event.owner : undefined, event.by].filter((name) => name !== undefined);
}

const isOf = (event: Event, owner: string): boolean => people(event).includes(owner);

function row(event: Event) {
  const isJob = event.type === 'job';
  return (
    <>
      <Cell class="c-time num muted">
        <Clock at={event.at} />
      </Cell>
      <Cell class="c-what">
        {isJob ? (
          <StateBadge state={event.state} />
        ) : (
          <span class={`chip chip-${tone(event.change)}`}>{word('is', event.change)}</span>
        )}
      </Cell>
      <Cell class="c-who">
        <Who event={event} />
      </Cell>
      {owners.value.length > 0 && <Cell class="c-owner">{isJob && event.owner}</Cell>}
      <Cell class="c-cluster">
        {isJob && event.cluster}
        {isJob && (event.attempt ?? 1) > 1 && <span class="muted"> #{event.attempt}</span>}
      </Cell>
      <Cell class="c-text muted" title={event.message}>
        {event.by !== undefined && <span class="strong">{t('events.by', { name: event.by })} </span>}
        {headline(event)}
      </Cell>
    </>
  );
}

function Who({ event }: { event: Event }): ComponentChildren {
  if (event.type === 'config') return <>{t('events.config')}</>;
  const isJob = event.type === 'job';
  return (
    <a
      class={isJob ? 'stretched mono' : 'stretched'}
      href={isJob ? link.job(event.job) : link.cluster(event.cluster)}
    >
      {isJob ? event.job : event.cluster}
    </a>
  );
}

const WARNINGS = [
  'cordoned',
  'draining',
  'drained',
  'leaving',
  'removed',
  'breaker_half_open',
  'not_grown',
];

function tone(change: string): string {
  if (['healthy', 'breaker_closed', 'uncordoned', 'reloaded'].includes(change)) return 'good';
  if (['unhealthy', 'unauthorized', 'breaker_opened', 'restarted', 'refused'].includes(change)) return 'bad';
  if (WARNINGS.includes(change)) return 'warn';
  return 'idle';
}

function contains(event: Event, text: string): boolean {
  if (!text) return true;
  // The words that are shown are found, too.
  const what =
    event.type === 'job'
      ? [event.job, event.state, word('state', event.state)]
      : [event.change, word('is', event.change)];
  const where = event.type === 'config' ? t('events.config') : event.cluster;
  return [...what, where, ...people(event), event.message].join(' ').toLowerCase().includes(text);
}
