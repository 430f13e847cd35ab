-- What a user of Neovim does to run a function: the lens above it, then the fault that the run has seen.

local begin = vim.loop.hrtime()

local function tell(what)
  io.stderr:write(("%6.1f s  %s\n"):format((vim.loop.hrtime() - begin) / 1e9, what))
  begin = vim.loop.hrtime()
end

local function wait_until(what, holds)
  assert(vim.wait(60000, holds, 50), what .. "; there is " .. vim.inspect(vim.diagnostic.get(0)))
  tell(what)
end

local function wait_for_lens(what, shows)
  for _ = 1, 120 do
    vim.lsp.codelens.refresh()
    if vim.wait(500, shows, 20) then
      return tell(what)
    end
  end
  error(what .. "; there is " .. vim.inspect(vim.lsp.codelens.get(0)))
end

local function title_of_lens(beginning)
  for _, lens in ipairs(vim.lsp.codelens.get(0)) do
    if vim.startswith(lens.command.title, beginning) then
      return lens
    end
  end
end

local function finding(words)
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    if diagnostic.message:find(words, 1, true) then
      return diagnostic
    end
  end
end

local function session()
  wait_until("the server", function() return #vim.tbl_values(vim.lsp.buf_get_clients(0)) == 1 end)
  wait_for_lens("an offer to run", function() return title_of_lens("▶ Dry-run") end)
  local lens = title_of_lens("▶ Dry-run")
  vim.api.nvim_win_set_cursor(0, { lens.range.start.line + 1, 0 })
  if vim.fn.maparg("\\dr", "n") ~= "" then
    vim.api.nvim_feedkeys("\\dr", "mx", false) -- the key of the page's configuration
  else
    vim.ui.select = function(lenses, options, on_choice) -- a line with several lenses asks which one is meant
      for index, found in ipairs(lenses) do
        if options.format_item(found):find("▶ Dry-run", 1, true) then
          return on_choice(found, index)
        end
      end
    end
    vim.lsp.codelens.run()
  end
  wait_until("the fault", function() return finding("5 is outside [0, 5)") end)
  assert(finding("5 is outside [0, 5)").source == "drygrad")
  wait_for_lens("the result", function() return title_of_lens("● pinned") and title_of_lens("✗ ") end)

  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, true)
  for number, line in ipairs(lines) do
    lines[number] = line:gsub("5, 2%]", "4, 2]")
  end
  vim.api.nvim_buf_set_lines(0, 0, -1, true, lines)
  vim.cmd("silent write")
  wait_for_lens("the pinned function passes when its input is mended", function() return title_of_lens("✓ passed") end)
  assert(not finding("5 is outside [0, 5)"))
end

local passed, message = xpcall(session, debug.traceback)
if not passed then
  io.stderr:write(message .. "\n")
end
vim.cmd(passed and "wq" or "cquit")
