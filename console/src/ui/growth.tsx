// How far a cluster can grow, and whether it does.

import type { Cluster } from '../api/types';
import { growthNotes } from '../store/growth';

/** Lines about the growth of a cluster; nothing for one that cannot grow. */
export function GrowthNotes({ cluster }: { cluster: Cluster }) {
  const notes = growthNotes(cluster);
  if (notes.length === 0) return null;
  return (
    <div class="growth" data-growth>
      {notes.map(({ text, tone }) => (
        <p class={tone} title={tone === 'warn' ? text : undefined} key={text}>
          {text}
        </p>
      ))}
    </div>
  );
}
