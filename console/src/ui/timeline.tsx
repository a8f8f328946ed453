// A job's states over time, and its attempts.

import type { Attempt, JobEvent, Moment, State } from '../api/types';
import { duration, headline } from '../format';
import { t, word } from '../i18n';
import { now } from '../store/clock';
import { StateBadge } from './badges';
import { Clock } from './time';

interface Phase {
  state: State;
  from: Moment;
  to: Moment;
}

const ENDED: State[] = ['succeeded', 'failed', 'stopped'];

/** From each event to the next; the last goes on until now unless it is an end. */
export function phases(events: JobEvent[], until: Moment): Phase[] {
  return events.flatMap((event, index) => {
    if (ENDED.includes(event.state)) return [];
    const to = events[index + 1]?.at ?? Math.max(until, event.at);
    return [{ state: event.state, from: event.at, to }];
  });
}

/**
 * The line of each event that says something new. What the page shows already, above or at an
 * attempt, is not repeated.
 */
export function lines(events: JobEvent[], shown: (string | undefined)[]): (string | undefined)[] {
  const told = new Set(shown);
  return events.map((event) => {
    const line = headline(event);
    if (line === undefined || told.has(line)) return undefined;
    told.add(line);
    return line;
  });
}

interface TimelineProps {
  events: JobEvent[];
  attempts: Attempt[];
  /** What the page says already. */
  shown: string | undefined;
}

export function Timeline({ events, attempts, shown }: TimelineProps) {
  const listed = attempts.length > 1 ? attempts : [];
  const said = lines(events, [shown, ...listed.map(headline)]);
  const parts = phases(events, now.value);
  const whole = parts.reduce((sum, part) => sum + part.to - part.from, 0);
  return (
    <>
      <div
        class="phases"
        role="img"
        aria-label={parts
          .map((part) => `${word('state', part.state)} ${duration(part.to - part.from)}`)
          .join(', ')}
      >
        {parts.map((part) => (
          <div
            key={part.from}
            class={`phase phase-${part.state}`}
            style={{ flexGrow: whole ? (part.to - part.from) / whole : 1 }}
            title={`${word('state', part.state)} ${duration(part.to - part.from)}`}
          />
        ))}
      </div>
      <ol class="timeline">
        {events.map((event, index) => {
          const previous = events[index - 1];
          return (
            <li key={event.seq}>
              <StateBadge state={event.state} />
              <span class="muted">
                {event.cluster !== previous?.cluster && event.cluster}
                {event.attempt !== previous?.attempt && (event.attempt ?? 1) > 1 && ` #${event.attempt}`}
                {event.by !== undefined && ` ${t('events.by', { name: event.by })}`}
              </span>
              <span class="grow" />
              <span class="muted num">
                {previous && event.at - previous.at >= 1000 && `+${duration(event.at - previous.at)} · `}
                <Clock at={event.at} />
              </span>
              {said[index] && <Line text={said[index]} whole={event.message} />}
            </li>
          );
        })}
      </ol>
      {listed.length > 0 && (
        <ol class="attempts">
          {listed.map((each) => (
            <li key={each.attempt}>
              <b>{t('attempt', { n: each.attempt })}</b> {each.cluster}{' '}
              <span class="muted">{each.outcome ? word('is', each.outcome) : t('attempt.live')}</span>
              <span class="row-second muted mono">{each.submission_id}</span>
              {headline(each) && <Line text={headline(each)!} whole={each.message} />}
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

/** The line of a message that matters; the whole message in the title. */
function Line({ text, whole }: { text: string; whole: string | undefined }) {
  return (
    <span class="row-second muted clamp" title={whole}>
      {text}
    </span>
  );
}
