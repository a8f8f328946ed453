// The search field of a page: `/` focuses it, arrow down goes to the first row.

import type { Signal } from '@preact/signals';
import { SearchIcon } from './icons';

export function Search({ value, label }: { value: Signal<string>; label: string }) {
  return (
    <label class="search">
      <SearchIcon />
      <input
        type="search"
        data-search
        value={value}
        placeholder={label}
        aria-label={label}
        spellcheck={false}
        onInput={(event) => (value.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            value.value = '';
            event.currentTarget.blur();
          } else if (event.key === 'ArrowDown') {
            event.preventDefault();
            document.querySelector<HTMLElement>('.virtual-row a')?.focus();
          }
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}
