// Queued work and its reasons: one entry for all work with the same requirements, the next of it.

import type { Queue, QueueHead } from '../api/types';
import { number, resources } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';
import { queues } from '../store/pool';
import { useResource } from '../store/resource';
import { Tags } from '../ui/badges';
import { Empty, Loading, Problem } from '../ui/feedback';
import { Since } from '../ui/time';
import { inGeneral, reasonsInShort, Verdicts } from '../ui/verdicts';

export function QueuePage() {
  useResource(queues);
  const { data, error } = queues;
  const waiting = data.value?.items.filter((queue) => queue.waiting > 0);
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('queue')}</h1>
        {data.value && <span class="muted">{t('queue.waiting', { n: data.value.waiting })}</span>}
      </header>
      {error.value && error.value.status !== 0 && (
        <Problem error={error.value} retry={() => void queues.refresh()} />
      )}
      {waiting === undefined ? (
        <Loading lines={5} />
      ) : waiting.length === 0 ? (
        <section class="panel">
          <Empty title={t('queue.empty')}>{t('queue.emptyHint')}</Empty>
        </section>
      ) : (
        waiting.map((queue) => <QueuePanel queue={queue} key={queue.name} />)
      )}
    </div>
  );
}

function QueuePanel({ queue }: { queue: Queue }) {
  return (
    <section class="panel" aria-label={queue.name} data-queue={queue.name}>
      <header>
        <h2>
          {queue.cluster ? t(`queue.${queue.kind}Of`, { cluster: queue.cluster }) : t(`queue.${queue.kind}`)}
        </h2>
        <span class="muted num">
          {number(queue.waiting)} / {number(queue.limit)}
        </span>
      </header>
      {queue.heads?.map((head, index) => (
        <HeadEntry head={head} open={index === 0} key={head.id} />
      ))}
      {queue.more_heads !== undefined && (
        <p class="muted panel-foot">{t('queue.more', { n: queue.more_heads })}</p>
      )}
    </section>
  );
}

/** The first entry is open, because it is next. The others are one line. */
function HeadEntry({ head, open }: { head: QueueHead; open: boolean }) {
  const needs = resources(head.demand);
  return (
    <details class="head" open={open} data-head={head.id}>
      <summary>
        <a class="mono" href={link.job(head.id)}>
          {head.id}
        </a>
        {head.kind !== 'job' && <span class="chip chip-idle">{word('kind', head.kind)}</span>}
        {head.waiting > 1 && (
          <span class="chip chip-accent">{t('queue.alike', { n: head.waiting - 1 })}</span>
        )}
        <Tags tags={head.tags} />
        <span class="grow" />
        <span class="muted num head-facts">
          {needs && <span>{needs}</span>}
          {head.preferred_cluster && (
            <span>
              {t(head.required ? 'job.requires' : 'job.prefers', { cluster: head.preferred_cluster })}
            </span>
          )}
          {head.priority !== 0 && <span>{t('job.priorityOf', { n: head.priority })}</span>}
          <span>
            {t('queue.for')} <Since at={head.queued_at} />
          </span>
        </span>
        <span class="row-second muted">{reasonsInShort(head.clusters)}</span>
      </summary>
      {inGeneral(head.summary, head.clusters).map((line) => (
        <p class="why" key={line}>
          {line}
        </p>
      ))}
      <Verdicts verdicts={head.clusters} />
    </details>
  );
}
