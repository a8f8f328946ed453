// Navigation. On a phone it is a bar at the bottom.

import type { FunctionComponent } from 'preact';
import { logOut } from '../api/client';
import { number } from '../format';
import { t, word, type Key } from '../i18n';
import { language, theme, type Theme } from '../prefs';
import { link, route } from '../router';
import { connection, version } from '../store/live';
import { may } from '../store/may';
import { clusters, pool } from '../store/pool';
import { useResource } from '../store/resource';
import { condition } from './badges';
import {
  AdviceIcon,
  EventsIcon,
  JobsIcon,
  KeyboardIcon,
  LogOutIcon,
  Mark,
  MoonIcon,
  OverviewIcon,
  OwnersIcon,
  PlusIcon,
  QueueIcon,
  SunIcon,
  SystemIcon,
  TimelineIcon,
} from './icons';
import { toggleHelp } from './help';
import { PlaneSection } from './plane';

const PAGES: { page: 'overview' | 'jobs' | 'queue' | 'owners' | 'timeline' | 'advice' | 'events'; icon: FunctionComponent }[] = [
  { page: 'overview', icon: OverviewIcon },
  { page: 'jobs', icon: JobsIcon },
  { page: 'queue', icon: QueueIcon },
  { page: 'owners', icon: OwnersIcon },
  { page: 'timeline', icon: TimelineIcon },
  { page: 'advice', icon: AdviceIcon },
  { page: 'events', icon: EventsIcon },
];

export function Sidebar() {
  const here = route.value;
  return (
    <nav class="sidebar" aria-label={t('nav')}>
      <a class="brand" href={link.overview}>
        <Mark />
        <span>Ray multicluster</span>
      </a>
      {may('submit') && (
        <a
          class="button primary new"
          href={link.submit}
          aria-label={t('submit')}
          aria-current={here.page === 'submit' ? 'page' : undefined}
        >
          <PlusIcon /> <span>{t('submit')}</span>
        </a>
      )}
      <ul class="nav">
        {PAGES.map(({ page, icon: Icon }) => (
          <li key={page}>
            <a href={link[page]} aria-current={isIn(page) ? 'page' : undefined}>
              <Icon />
              <span>{t(page)}</span>
              {page === 'queue' && <Waiting />}
            </a>
          </li>
        ))}
      </ul>
      <ClusterLinks />
      <div class="sidebar-foot">
        <Account />
        <PlaneSection />
        <Status />
        <div class="switches">
          <ThemeSwitch />
          <button
            type="button"
            class="plain"
            lang={language.value === 'zh' ? 'en' : 'zh-CN'}
            aria-label={language.value === 'zh' ? 'Switch to English' : '切换到简体中文'}
            onClick={() => (language.value = language.value === 'zh' ? 'en' : 'zh')}
          >
            {language.value === 'zh' ? 'EN' : '中文'}
          </button>
          <button
            type="button"
            class="plain keys"
            aria-label={t('help')}
            title={t('help')}
            onClick={toggleHelp}
          >
            <KeyboardIcon />
          </button>
        </div>
      </div>
    </nav>
  );
}

function isIn(page: string): boolean {
  const here = route.value.page;
  return here === page || (page === 'jobs' && here === 'job');
}

function Waiting() {
  useResource(pool);
  const waiting = pool.data.value?.waiting ?? 0;
  return waiting > 0 ? <span class="count num">{number(waiting)}</span> : null;
}

function ClusterLinks() {
  useResource(clusters);
  const here = route.value;
  const items = clusters.data.value ?? [];
  if (items.length === 0) return null;
  return (
    <div class="sidebar-clusters">
      <h2>{t('clusters')}</h2>
      <ul class="nav">
        {items.map((cluster) => {
          const { name, tone } = condition(cluster);
          const current = here.page === 'cluster' && here.name === cluster.name;
          return (
            <li key={cluster.name}>
              <a
                href={link.cluster(cluster.name)}
                aria-current={current ? 'page' : undefined}
                title={word('is', name)}
              >
                <span class={`dot dot-${tone}`} />
                <span class="cut">{cluster.name}</span>
                <span class="sr-only">{word('is', name)}</span>
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Status() {
  const now = connection.value;
  const tone = now === 'live' ? 'good' : now === 'away' ? 'bad' : 'idle';
  return (
    <p
      class="status muted"
      data-connection={now}
      title={version.value && t('status.version', { version: version.value.version })}
    >
      <span class={`dot dot-${tone}`} />
      <span>{t(`status.${now}`)}</span>
      {version.value && <span class="num version">{version.value.version}</span>}
    </p>
  );
}

/** With tokens: the owner of this one, and the logout. */
function Account() {
  const { owner, role } = version.value ?? {};
  if (!owner || !role) return null;
  return (
    <p class="account muted">
      <span class="cut" title={t('account.role', { role })}>
        {owner}
        {role === 'read' && ` · ${t('account.readOnly')}`}
      </span>
      <button type="button" class="plain" aria-label={t('account.out')} title={t('account.out')} onClick={logOut}>
        <LogOutIcon />
      </button>
    </p>
  );
}

const THEMES: Record<Theme, { next: Theme; icon: FunctionComponent; label: Key }> = {
  system: { next: 'light', icon: SystemIcon, label: 'theme.system' },
  light: { next: 'dark', icon: SunIcon, label: 'theme.light' },
  dark: { next: 'system', icon: MoonIcon, label: 'theme.dark' },
};

function ThemeSwitch() {
  const { next, icon: Icon, label } = THEMES[theme.value];
  return (
    <button
      type="button"
      class="plain"
      data-theme-switch={theme.value}
      aria-label={t(label)}
      title={t(label)}
      onClick={() => (theme.value = next)}
    >
      <Icon />
    </button>
  );
}
