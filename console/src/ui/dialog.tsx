// "Are you sure?", as a promise.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { t } from '../i18n';

interface Question {
  title: string;
  text: string;
  action: string;
  danger?: boolean;
  /** What it is about, one after the other. */
  list?: string[];
  /** The label of a text field, if the dialog has one. */
  note?: string;
}

const asked = signal<(Question & { answer: (note: string | undefined) => void }) | undefined>(undefined);

/** Resolves to the note (empty if there is no field for one), or to undefined on cancel. */
export function confirm(question: Question): Promise<string | undefined> {
  return new Promise((answer) => (asked.value = { ...question, answer }));
}

export function ConfirmDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const note = useRef<HTMLInputElement>(null);
  const question = asked.value;
  useEffect(() => {
    if (question) dialog.current?.showModal();
  }, [question]);
  if (!question) return null;

  const close = (answer: string | undefined): void => {
    asked.value = undefined;
    question.answer(answer);
  };
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onClose={() => close(undefined)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          close(note.current?.value.trim() ?? '');
        }}
      >
        <h2 id="confirm-title">{question.title}</h2>
        <p class="muted">{question.text}</p>
        {question.list && <List items={question.list} />}
        {question.note && (
          <label class="field">
            <span>{question.note}</span>
            <input ref={note} name="note" maxLength={200} autocomplete="off" />
          </label>
        )}
        <div class="actions">
          <button type="button" onClick={() => close(undefined)}>
            {t('cancel')}
          </button>
          <button type="submit" class={question.danger ? 'danger' : 'primary'}>
            {question.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Enough to recognize a wrong selection; the count is in the title. */
const LISTED = 8;

function List({ items }: { items: string[] }) {
  return (
    <ul class="dialog-list mono">
      {items.slice(0, LISTED).map((item) => (
        <li class="cut" key={item} title={item}>
          {item}
        </li>
      ))}
      {items.length > LISTED && <li class="muted">{t('bulk.more', { n: items.length - LISTED })}</li>}
    </ul>
  );
}
