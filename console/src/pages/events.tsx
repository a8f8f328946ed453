// Events as they happen.

import { computed, useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Event } from '../api/types';
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

export function EventsPage() {
  const about = useSignal<About>('all');
  const text = useSignal('');
  /** The events shown while the page is paused. */
  const frozen = useSignal<Event[] | undefined>(undefined);
  const shown = useMemo(
    () =>
      computed(() => {
        const words = text.value.toLowerCase();
        const events = frozen.value ?? recent.value;
        return events
          .filter((event) => (about.value === 'all' || event.type === about.value) && contains(event, words))
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
          class="events"
          label={t('events')}
          items={shown.value}
          rowHeight={isNarrow.value ? 56 : 34}
          header={
            <>
              <Head class="c-time">{t('time')}</Head>
              <Head class="c-what">{t('events.what')}</Head>
              <Head class="c-who">{t('events.who')}</Head>
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
        <a
          class={isJob ? 'stretched mono' : 'stretched'}
          href={isJob ? link.job(event.job) : link.cluster(event.cluster)}
        >
          {isJob ? event.job : event.cluster}
        </a>
      </Cell>
      <Cell class="c-cluster">
        {isJob && event.cluster}
        {isJob && (event.attempt ?? 1) > 1 && <span class="muted"> #{event.attempt}</span>}
      </Cell>
      <Cell class="c-text muted">{event.message}</Cell>
    </>
  );
}

function tone(change: string): string {
  if (['healthy', 'breaker_closed', 'uncordoned'].includes(change)) return 'good';
  if (['unhealthy', 'unauthorized', 'breaker_opened', 'restarted'].includes(change)) return 'bad';
  if (['cordoned', 'drained', 'leaving', 'removed', 'breaker_half_open'].includes(change)) return 'warn';
  return 'idle';
}

function contains(event: Event, text: string): boolean {
  if (!text) return true;
  const what = event.type === 'job' ? [event.job, event.state] : [event.change];
  return [...what, event.cluster, event.message].join(' ').toLowerCase().includes(text);
}
