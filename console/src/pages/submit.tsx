// Submit a job from a form, with a preview of where it would go.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ApiError, post } from '../api/client';
import type { Accepted, JobRequest, WhatIf } from '../api/types';
import { t } from '../i18n';
import { go, link } from '../router';
import { clusters } from '../store/pool';
import { useResource } from '../store/resource';
import { Problem, toast } from '../ui/feedback';
import { Verdicts } from '../ui/verdicts';
import { request, type Fields } from './request';

const BLANK: Fields = {
  entrypoint: '',
  id: '',
  cluster: '',
  required: false,
  tags: '',
  cpus: '',
  gpus: '',
  memory: '',
  priority: '',
  retries: '',
};

export function SubmitPage() {
  useResource(clusters);
  const fields = useSignal<Fields>(BLANK);
  const error = useSignal<ApiError | undefined>(undefined);
  const busy = useSignal(false);

  const change = (event: {
    currentTarget: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  }): void => {
    const input = event.currentTarget;
    const value =
      input instanceof HTMLInputElement && input.type === 'checkbox' ? input.checked : input.value;
    fields.value = { ...fields.value, [input.name]: value };
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    error.value = undefined;
    try {
      const { id, duplicate, notices } = await post<Accepted>('/v1/jobs', request(fields.value));
      if (duplicate) toast(t('submit.same'));
      notices?.forEach((notice) => toast(notice));
      go(link.job(id));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      error.value = problem;
    } finally {
      busy.value = false;
    }
  };
  const text = (name: 'tags' | 'id', label: string, hint: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        value={fields.value[name]}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        onInput={change}
      />
    </label>
  );
  const number = (name: 'cpus' | 'gpus' | 'memory' | 'priority' | 'retries', label: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        type="number"
        min={name === 'priority' ? undefined : 0}
        step={name === 'priority' || name === 'retries' ? 1 : 'any'}
        value={fields.value[name]}
        placeholder="0"
        onInput={change}
      />
    </label>
  );
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('submit')}</h1>
      </header>
      <div class="split split-even">
        <form class="panel form" onSubmit={(event) => void submit(event)}>
          <label class="field">
            <span>{t('job.entrypoint')}</span>
            <textarea
              name="entrypoint"
              class="mono"
              rows={3}
              required
              value={fields.value.entrypoint}
              placeholder="python train.py --epochs 3"
              spellcheck={false}
              onInput={change}
            />
          </label>
          <div class="field-row">
            {number('cpus', 'CPU')}
            {number('gpus', 'GPU')}
            {number('memory', t('submit.memory'))}
          </div>
          <div class="field-row">
            <label class="field">
              <span>{t('submit.cluster')}</span>
              <select name="cluster" value={fields.value.cluster} onChange={change}>
                <option value="">{t('jobs.anyCluster')}</option>
                {clusters.data.value?.map((each) => (
                  <option value={each.name} key={each.name}>
                    {each.name}
                  </option>
                ))}
              </select>
            </label>
            <label class="check">
              <input
                type="checkbox"
                name="required"
                checked={fields.value.required}
                disabled={!fields.value.cluster}
                onChange={change}
              />
              <span>{t('submit.required')}</span>
            </label>
          </div>
          {text('tags', t('tags'), 'linux, nightly')}
          <div class="field-row">
            {number('priority', t('job.priority'))}
            {number('retries', t('submit.retries'))}
          </div>
          {text('id', t('job.id'), t('submit.idHint'))}
          {error.value && <Problem error={error.value} />}
          <div class="actions">
            <button type="submit" class="primary" disabled={busy.value}>
              {t('submit.send')}
            </button>
          </div>
        </form>
        <Preview job={request(fields.value)} />
      </div>
    </div>
  );
}

/** Where the job would go now: updated when the form changes, and every two seconds. */
function Preview({ job }: { job: JobRequest }) {
  const answer = useSignal<WhatIf | ApiError | undefined>(undefined);
  // The answer does not depend on the command, which may still be empty.
  const { id: _, ...shape } = { ...job, entrypoint: 'true' };
  const question = JSON.stringify(shape);
  useEffect(() => {
    const abort = new AbortController();
    const ask = (): void => {
      post<WhatIf>('/v1/what-if', JSON.parse(question), abort.signal).then(
        (given) => (answer.value = given),
        (problem: unknown) => problem instanceof ApiError && (answer.value = problem),
      );
    };
    const first = setTimeout(ask, 250);
    const again = setInterval(ask, 2000);
    return () => {
      clearTimeout(first);
      clearInterval(again);
      abort.abort();
    };
  }, [question]);

  const given = answer.value;
  return (
    <section class="panel preview" aria-labelledby="preview-title" aria-live="polite">
      <header>
        <h2 id="preview-title">{t('preview')}</h2>
      </header>
      {given instanceof ApiError ? (
        <Problem error={given} />
      ) : given ? (
        <>
          <p class="preview-answer" data-chosen={given.chosen ?? ''}>
            {given.refused
              ? t('preview.refused', { why: given.refused })
              : given.chosen
                ? t('preview.chosen', { cluster: given.chosen })
                : t('preview.waits')}
          </p>
          {given.notices?.map((notice) => (
            <p class="card-note preview-notice" key={notice}>
              {notice}
            </p>
          ))}
          <Verdicts verdicts={given.clusters} />
        </>
      ) : (
        <p class="muted panel-foot">{t('preview.asking')}</p>
      )}
    </section>
  );
}
