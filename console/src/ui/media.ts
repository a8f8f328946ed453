// The phone layout has taller rows, which a list must know.

import { signal } from '@preact/signals';

const narrow = matchMedia('(max-width: 720px)');
export const isNarrow = signal(narrow.matches);
narrow.addEventListener('change', () => (isNarrow.value = narrow.matches));
