// The log of a job: live or of one attempt, with a search, and to keep as a file.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { get, segment } from '../api/client';
import type { Attempt, JobDetail, Logs } from '../api/types';
import { exitCode } from '../format';
import { t, word } from '../i18n';
import { find, parts, plain, whole, type Found } from '../store/log';
import { clusters } from '../store/pool';
import { Resource, useOwn, useResource } from '../store/resource';
import { attempt as trying, toast } from './feedback';
import { DownloadIcon, SearchIcon } from './icons';
import { LogTail } from './logtail';
import { Outside } from './outside';

/** So many of the lines that match are listed. */
const LISTED = 500;
/** A live log is searched again this often. */
const AGAIN_MS = 1000;

export function LogPanel({ job }: { job: JobDetail }) {
  const box = useRef<HTMLPreElement>(null);
  /** Zero: all attempts, live. */
  const chosen = useSignal(0);
  const words = useSignal('');
  const lives = job.ended_at === undefined;
  const attempt = chosen.value || undefined;
  const silent = whyNothing(job, attempt);

  const download = async (): Promise<void> => {
    await trying(async () => {
      const { text, cut } = await whole(job.id, attempt);
      keep(attempt === undefined ? `${job.id}.log` : `${job.id}-attempt-${attempt}.log`, text);
      if (cut) toast(t('log.onlyEnd'));
    }, t('log.downloaded'));
  };
  const tools = (
    <>
      {job.history.length > 1 && (
        <select
          name="attempt"
          aria-label={t('log.attempt')}
          value={chosen.value}
          onChange={(event) => (chosen.value = Number(event.currentTarget.value))}
        >
          <option value={0}>{lives ? t('log.allLive') : t('log.all')}</option>
          {job.history.map((each) => (
            <option value={each.attempt} key={each.attempt}>
              {named(each)}
            </option>
          ))}
        </select>
      )}
      <label class="search log-search">
        <SearchIcon />
        <input
          type="search"
          value={words.value}
          placeholder={t('log.search')}
          aria-label={t('log.search')}
          spellcheck={false}
          onInput={(event) => (words.value = event.currentTarget.value)}
          onKeyDown={(event) => event.key === 'Escape' && (words.value = '')}
        />
      </label>
      <button
        type="button"
        data-action="download"
        aria-label={t('log.download')}
        title={t('log.download')}
        onClick={() => void download()}
      >
        <DownloadIcon />
      </button>
    </>
  );
  const found = words.value.trim() && (
    <Matches
      box={box}
      words={words.value.trim()}
      lives={lives}
      show={(line) => {
        words.value = '';
        // The log is shown again with the next frame.
        requestAnimationFrame(() => requestAnimationFrame(() => box.current && showLine(box.current, line)));
      }}
    />
  );
  const shown = { box, tools, found, empty: silent && <NeverStarted attempt={silent} /> };
  return attempt === undefined ? (
    <LogTail id={job.id} lives={lives} {...shown} />
  ) : (
    <OneAttempt id={job.id} attempt={attempt} key={attempt} {...shown} />
  );
}

function named({ attempt, cluster, outcome }: Attempt): string {
  return `${t('attempt', { n: attempt })} · ${cluster} · ${outcome ? word('is', outcome) : t('attempt.live')}`;
}

/** The attempt, if it failed before its command started: then there is no log. */
export function whyNothing(job: Pick<JobDetail, 'history'>, chosen: number | undefined): Attempt | undefined {
  const { history } = job;
  const one = chosen === undefined ? history.at(-1) : history.find((each) => each.attempt === chosen);
  if (!one || (one.outcome !== 'not_started' && one.outcome !== 'failed')) return undefined;
  const started = one.running_at !== undefined || exitCode(one) !== undefined;
  return started ? undefined : one;
}

function NeverStarted({ attempt: { cluster } }: { attempt: Attempt }) {
  const known = useResource(clusters).data.value?.find((each) => each.name === cluster);
  return (
    <div class="log-empty" data-never-started>
      <p>{t('log.neverStarted')}</p>
      <p class="muted">
        {t('log.lookAt', { cluster })} <code>/tmp/ray/session_latest/logs/</code>: <code>runtime_env_setup-*.log</code>,{' '}
        <code>job-driver-*.log</code>
        {known && (
          <>
            {' · '}
            <Outside to={known.dashboard}>{t('log.dashboard', { cluster })}</Outside>
          </>
        )}
      </p>
    </div>
  );
}

type Shown = Omit<Parameters<typeof LogTail>[0], 'id' | 'lives'>;

const logOf = (key: string): Resource<Logs> => {
  const [id, attempt] = JSON.parse(key) as [string, number];
  return new Resource((signal) => get<Logs>(`/v1/jobs/${segment(id)}/logs`, { attempt }, signal));
};

/** An earlier attempt: it does not change any more. */
function OneAttempt({ id, attempt, box, tools, found, empty }: Shown & { id: string; attempt: number }) {
  const { data, error } = useOwn(JSON.stringify([id, attempt]), logOf);
  const text = plain(data.value?.text ?? '');
  return (
    <section class="panel log" aria-labelledby="log-title" data-attempt={attempt}>
      <header>
        <h2 id="log-title">{t('log')}</h2>
        {data.value?.truncated && <span class="muted">{t('log.cut')}</span>}
        <span class="grow" />
        {tools}
      </header>
      {found}
      {error.value ? (
        <p class="log-empty muted">{error.value.message}</p>
      ) : (
        data.value && !text && (empty ?? <p class="log-empty muted">{t('log.nothing')}</p>)
      )}
      <pre ref={box} tabIndex={0} aria-label={t('log')} hidden={!text || Boolean(found)}>
        {text}
      </pre>
    </section>
  );
}

interface MatchesProps {
  box: { readonly current: HTMLPreElement | null };
  words: string;
  lives: boolean;
  show: (line: Found) => void;
}

/** The lines that match, like `grep -n`; a click shows the line in the log. */
function Matches({ box, words, lives, show }: MatchesProps) {
  const found = useSignal<ReturnType<typeof find>>({ total: 0, lines: [] });
  useEffect(() => {
    const look = (): void => {
      found.value = find(box.current?.textContent ?? '', words, LISTED);
    };
    look();
    const again = lives ? setInterval(look, AGAIN_MS) : undefined;
    return () => clearInterval(again);
  }, [words, lives]);
  const { total, lines } = found.value;
  return (
    <div class="log-found" data-found={total}>
      <p class="muted" role="status">
        {t('log.found', { n: total })}
        {total > lines.length && ` · ${t('log.foundFirst', { n: lines.length })}`}
      </p>
      <ol>
        {lines.map((line) => (
          <li key={line.start}>
            <button type="button" class="plain mono" onClick={() => show(line)}>
              <span class="num muted">{line.number}</span>
              <span>
                {parts(line.text, words).map((part, index) => (index % 2 ? <mark key={index}>{part}</mark> : part))}
              </span>
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Scrolls there and selects the line. The log is many pieces of text. */
function showLine(box: HTMLElement, { start, text }: Found): void {
  const at = (offset: number): [Node, number] => {
    let left = offset;
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    let last: Node = box;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const length = node.textContent?.length ?? 0;
      if (left <= length) return [node, left];
      left -= length;
      last = node;
    }
    return [last, 0];
  };
  const range = document.createRange();
  range.setStart(...at(start));
  range.setEnd(...at(start + text.length));
  const selection = getSelection();
  selection?.removeAllRanges();
  selection?.addRange(range);
  const [line, view] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
  box.scrollTop += line.top - view.top - view.height / 3;
}

/** As a file of the browser. */
function keep(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  link.download = name.replaceAll(/[^\w.-]+/g, '_');
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
