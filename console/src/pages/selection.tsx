// Several jobs of the list at once: stop, run again or delete them, and a report of what failed.

import { signal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Job } from '../api/types';
import { t } from '../i18n';
import { link } from '../router';
import { fit, forEach, type Report, type Verb } from '../store/bulk';
import { forget, jobs, older, loadOlder } from '../store/jobs';
import { confirm } from '../ui/dialog';
import { toast } from '../ui/feedback';

const picked = signal<ReadonlySet<string>>(new Set());
/** Where a range that Shift extends begins. */
let anchor: string | undefined;
const running = signal<{ verb: Verb; done: number; of: number } | undefined>(undefined);
const report = signal<Report | undefined>(undefined);

const VERBS: Verb[] = ['stop', 'rerun', 'delete'];
/** So many of the errors are listed. */
const LISTED = 100;

export function PickOne({ job, shown }: { job: Job; shown: ReadonlySignal<Job[]> }) {
  const pick = (event: MouseEvent): void => {
    const on = (event.currentTarget as HTMLInputElement).checked;
    const next = new Set(picked.peek());
    const ids = event.shiftKey ? range(shown.peek(), anchor, job.id) : [job.id];
    for (const id of ids) {
      if (on) next.add(id);
      else next.delete(id);
    }
    anchor = job.id;
    picked.value = next;
  };
  return (
    <input
      type="checkbox"
      data-pick={job.id}
      aria-label={t('select.one', { id: job.id })}
      checked={picked.value.has(job.id)}
      onClick={pick}
    />
  );
}

/** The ids from one job to another, both included. */
export function range(list: Job[], from: string | undefined, to: string): string[] {
  const ends = [from, to].map((id) => list.findIndex((job) => job.id === id));
  if (ends.includes(-1)) return [to];
  const [first, last] = ends.toSorted((a, b) => a - b) as [number, number];
  return list.slice(first, last + 1).map((job) => job.id);
}

/** All jobs that match the filter, those off the screen too. */
export function PickAll({ shown }: { shown: Job[] }) {
  const box = useRef<HTMLInputElement>(null);
  const count = shown.filter((job) => picked.value.has(job.id)).length;
  const all = count > 0 && count === shown.length;
  useEffect(() => {
    if (box.current) box.current.indeterminate = count > 0 && !all;
  });
  return (
    <input
      ref={box}
      type="checkbox"
      data-pick-all
      aria-label={t('select.all', { n: shown.length })}
      title={t('select.all', { n: shown.length })}
      checked={all}
      onClick={() => (picked.value = new Set(all ? [] : shown.map((job) => job.id)))}
    />
  );
}

/** What can be done with the selection. Jobs that a filter hides are not part of it. */
export function SelectionBar({ shown }: { shown: Job[] }) {
  const chosen = shown.filter((job) => picked.value.has(job.id));
  useEffect(() => () => void (picked.value = new Set()), []);
  const busy = running.value;
  return (
    <>
      {(chosen.length > 0 || busy) && (
        <div class="selection" role="group" aria-label={t('select.group')} data-selected={chosen.length}>
          <b class="num">{t('select.n', { n: chosen.length })}</b>
          {chosen.length < shown.length && !busy && (
            <button
              type="button"
              class="plain"
              onClick={() => (picked.value = new Set(shown.map((job) => job.id)))}
            >
              {t('select.all', { n: shown.length })}
            </button>
          )}
          {older.value && chosen.length === shown.length && (
            <span class="muted">
              {t('select.older')}{' '}
              <button type="button" class="plain" onClick={() => void loadOlder()}>
                {t('jobs.loadOlder')}
              </button>
            </span>
          )}
          <span class="grow" />
          {busy ? (
            <span class="muted num" role="status">
              {t(`bulk.${busy.verb}.doing`, { n: busy.done, of: busy.of })}
            </span>
          ) : (
            VERBS.map((verb) => <Action verb={verb} chosen={chosen} key={verb} />)
          )}
          <button type="button" class="plain" onClick={() => (picked.value = new Set())}>
            {t('select.none')}
          </button>
        </div>
      )}
      {report.value && <ReportDialog report={report.value} />}
    </>
  );
}

function Action({ verb, chosen }: { verb: Verb; chosen: Job[] }) {
  const suited = fit(verb, chosen);
  return (
    <button
      type="button"
      class={verb === 'rerun' ? '' : 'danger'}
      data-bulk={verb}
      disabled={suited.length === 0}
      title={suited.length === 0 ? t(`bulk.${verb}.none`) : undefined}
      onClick={() => void run(verb, suited, chosen.length - suited.length)}
    >
      {t(`bulk.${verb}`, { n: suited.length })}
    </button>
  );
}

async function run(verb: Verb, suited: Job[], others: number): Promise<void> {
  const sure = await confirm({
    title: t(`bulk.${verb}.title`, { n: suited.length }),
    text: [t(`bulk.${verb}.text`), others > 0 ? t('bulk.others', { n: others }) : ''].filter(Boolean).join(' '),
    list: suited.map((job) => job.id),
    action: t(`bulk.${verb}`, { n: suited.length }),
    danger: verb !== 'rerun',
  });
  if (sure === undefined) return;
  const ids = suited.map((job) => job.id);
  running.value = { verb, done: 0, of: ids.length };
  try {
    const found = await forEach(verb, ids, (done) => (running.value = { verb, done, of: ids.length }));
    // Events report the other changes, but there is none for a forgotten job.
    if (verb === 'delete') forget(found.done);
    picked.value = new Set(found.failed.map((each) => each.id));
    if (found.failed.length === 0) toast(t(`bulk.${verb}.done`, { n: found.done.length }));
    else report.value = found;
  } finally {
    running.value = undefined;
  }
}

/** What failed stays selected, to be tried again. */
function ReportDialog({ report: { verb, done, failed } }: { report: Report }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const known = new Set(jobs.value.map((job) => job.id));
  return (
    <dialog ref={dialog} class="report" aria-labelledby="report-title" onClose={() => (report.value = undefined)}>
      <h2 id="report-title">{t('bulk.failed', { n: failed.length })}</h2>
      <p class="muted">{t(`bulk.${verb}.done`, { n: done.length })}</p>
      <ul>
        {failed.slice(0, LISTED).map(({ id, message }) => (
          <li key={id}>
            {known.has(id) ? (
              <a class="mono" href={link.job(id)} onClick={() => (report.value = undefined)}>
                {id}
              </a>
            ) : (
              <span class="mono">{id}</span>
            )}{' '}
            <span class="muted">{message}</span>
          </li>
        ))}
      </ul>
      {failed.length > LISTED && <p class="muted">{t('bulk.more', { n: failed.length - LISTED })}</p>}
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          {t('close')}
        </button>
      </div>
    </dialog>
  );
}
