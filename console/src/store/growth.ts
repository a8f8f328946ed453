// Clusters that can grow: what is there, what could be there, and what is to be said about it.

import type { Cluster } from '../api/types';
import { roughly } from '../format';
import { t } from '../i18n';
import { now } from './clock';

/** How much of one resource a cluster has, has once it has grown, and where its bar ends. */
export interface Extent {
  there: number;
  grown: number;
  end: number;
}

export function extent({ total, elastic }: Cluster, resource: string): Extent {
  // Amounts of zero are left out of the facts.
  const there = total?.[resource] ?? 0;
  const grown = Math.max(there, elastic?.grown[resource] ?? 0);
  // A cluster that does not grow is shown as large as it should be able to get.
  const isStuck = elastic?.stuck_since_at !== undefined;
  return { there, grown, end: isStuck ? Math.max(grown, elastic.max[resource] ?? 0) : grown };
}

/** The parts of a bar, as shares of its width; `share` is what is taken of the grown cluster. */
export interface Parts {
  used: number;
  /** Taken of nodes that are not there. */
  coming: number;
  there: number;
  grown: number;
}

export function parts(share: number, { there, grown, end }: Extent): Parts {
  if (end === 0) return { used: 0, coming: 0, there: 0, grown: 0 };
  const taken = (Math.min(1, share) * grown) / end;
  const used = Math.min(taken, there / end);
  return { used, coming: taken - used, there: there / end, grown: grown / end };
}

export interface Note {
  text: string;
  tone: 'muted' | 'warn';
}

/** `3 nodes · 2 more can be added · 1 on the way`, and what is wrong. Empty for other clusters. */
export function growthNotes({ elastic, nodes }: Cluster): Note[] {
  if (!elastic || nodes === undefined) return [];
  const { can_add, pending = 0, waiting, failed = 0, failure, problem } = elastic;
  const isStuck = elastic.stuck_since_at !== undefined;
  const facts = [
    t('growth.nodes', { n: nodes }),
    can_add > 0 ? t('growth.canAdd', { n: can_add }) : isStuck || nodes === 0 ? '' : t('growth.full'),
    pending > 0 ? t('growth.pending', { n: pending }) : '',
    waiting > 0 ? t('growth.waiting', { n: waiting }) : '',
  ];
  const notes: Note[] = [{ text: facts.filter(Boolean).join(' · '), tone: 'muted' }];
  if (isStuck) notes.push({ text: stuckNote(elastic), tone: 'warn' });
  else if (failure) notes.push({ text: t('growth.failed', { n: Math.max(1, failed), why: failure }), tone: 'warn' });
  if (problem) notes.push({ text: problem, tone: 'warn' });
  return notes;
}

function stuckNote({ stuck_since_at = 0, asked_again_at = 0, failure }: NonNullable<Cluster['elastic']>): string {
  const time = roughly(now.value - stuck_since_at);
  const left = roughly(asked_again_at - now.value);
  return failure ? t('growth.stuckWhy', { time, left, why: failure }) : t('growth.stuck', { time, left });
}
