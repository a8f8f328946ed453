import { render } from 'preact';
import { App } from './app';
import { start } from './store/live';

render(<App />, document.getElementById('app')!);
start();
